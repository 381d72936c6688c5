#include "model/served_adapters.h"

#include <fmt/format.h>

#include "base/error.h"
#include "kernels/adapters/op.h"
#include "kernels/documents.h"
#include "model/parameter.h"
#include "tensor/to_tensor.h"

namespace longhaul::model {
namespace {

// A matrix with the packed copies that products of it read.
struct PackedMatrix {
  Tensor value;
  kernels::PackedWeight packed;
  kernels::LinearWeights weights() { return {.weight = value, .kept = {.copies = &packed, .version = 1}}; }
};

[[noreturn]] void refuse(const std::string& what, const std::string& expected, const std::string& found) {
  throw Error({.code = ExitCode::kUsage,
               .what = what,
               .expected = expected,
               .found = found,
               .where = "the adapter",
               .hint = "checkpoint merge RUN DIR, and serve DIR as a model of its own"});
}

}  // namespace

struct ServedAdapters::Beside {
  struct Up {
    PackedMatrix matrix;
    int64_t first_column = 0, first_rank = 0;
  };
  PackedMatrix down;
  std::vector<std::unique_ptr<Up>> ups;
  double scale = 1;
};

ServedAdapters::ServedAdapters() = default;
ServedAdapters::~ServedAdapters() = default;

void ServedAdapters::offer(const Parameter& weight) {
  for (const Part& part : weight.parts) offered_[part.spec.tensor.name] = &weight;
}

int64_t ServedAdapters::add(const std::map<std::string, Matrix>& matrices) {
  for (const auto& [name, matrix] : matrices) {
    const auto found = offered_.find(name);
    if (found == offered_.end())
      refuse("an adapter stands beside a matrix that is served without adapters",
             "adapters of linear layers, and not of experts", name);
    for (const Part& part : found->second->parts) {
      if (part.spec.tensor.name != name) continue;
      const bool fits = matrix.up_or.size(0) == part.slice.length[0] &&
                        matrix.down_ri.size(1) == found->second->sizes[1] &&
                        matrix.up_or.size(1) == matrix.down_ri.size(0);
      if (!fits)
        refuse("an adapter has another shape than the matrix that it stands beside",
               fmt::format("{} [{}, {}]", name, part.slice.length[0], found->second->sizes[1]),
               fmt::format("A {}, B {}", kernels::shape_text(matrix.down_ri),
                           kernels::shape_text(matrix.up_or)));
    }
  }
  const int64_t number = ++count_;
  for (const auto& [name, weight] : offered_) {
    if (!matrices.contains(name)) continue;
    auto& beside = of_weights_[weight][number];
    if (beside != nullptr) continue;  // made with the first of the parameter's matrices
    beside = std::make_unique<Beside>();
    std::vector<Tensor> downs;
    int64_t ranks = 0;
    for (const Part& part : weight->parts) {
      const auto found = matrices.find(part.spec.tensor.name);
      if (found == matrices.end()) continue;
      auto up = std::make_unique<Beside::Up>();
      up->matrix.value = found->second.up_or.contiguous();
      up->first_column = part.slice.offset[0];
      up->first_rank = ranks;
      ranks += found->second.down_ri.size(0);
      downs.push_back(found->second.down_ri);
      beside->scale = found->second.scale;
      beside->ups.push_back(std::move(up));
    }
    beside->down.value = at::cat(downs).contiguous();
  }
  return number;
}

void ServedAdapters::choose(std::vector<int64_t> of_tokens) {
  of_tokens_ = std::move(of_tokens);
  std::map<int64_t, std::vector<int64_t>> places;
  for (size_t t = 0; t < of_tokens_.size(); ++t) {
    LONGHAUL_ASSERT(of_tokens_[t] >= 0 && of_tokens_[t] <= count_, "adapter {} of {}", of_tokens_[t], count_);
    if (of_tokens_[t] > 0) places[of_tokens_[t]].push_back(static_cast<int64_t>(t));
  }
  tokens_of_.clear();
  for (const auto& [number, tokens] : places) tokens_of_[number] = to_tensor(tokens);
}

Tensor ServedAdapters::adapted(const Tensor& x, const Parameter& weight, const Tensor& y) const {
  const auto found = of_weights_.find(&weight);
  if (tokens_of_.empty() || found == of_weights_.end()) return y;
  LONGHAUL_ASSERT(x.size(0) == std::ssize(of_tokens_), "{} rows, {} tokens", x.size(0), of_tokens_.size());
  for (const auto& [number, token_n] : tokens_of_) {
    const auto beside = found->second.find(number);
    if (beside == found->second.end()) continue;
    Beside& own = *beside->second;
    std::vector<kernels::AdapterUp> ups;
    for (const auto& up : own.ups) {
      ups.push_back(
          {.weights = up->matrix.weights(), .first_column = up->first_column, .first_rank = up->first_rank});
    }
    const Tensor index = token_n.to(x.device());
    const Tensor rows = y.index_select(0, index);
    kernels::add_adapters(rows, x.index_select(0, index), own.down.weights(), ups, own.scale);
    y.index_copy_(0, index, rows);
  }
  return y;
}

}  // namespace longhaul::model
