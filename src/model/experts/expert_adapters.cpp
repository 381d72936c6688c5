#include "model/experts/expert_adapters.h"

#include <fmt/format.h>

#include "base/error.h"
#include "kernels/linear/op.h"
#include "layout/adapters.h"

namespace longhaul::model {
namespace {

// For each expert, the names of those of its matrices that `of` lists.
std::vector<std::vector<std::string>> names_beside(const std::vector<std::vector<std::string>>& names,
                                                   const std::vector<size_t>& of,
                                                   std::string (*named)(std::string_view)) {
  std::vector<std::vector<std::string>> all;
  for (const auto& of_expert : names) {
    auto& list = all.emplace_back();
    for (const size_t matrix : of) list.push_back(named(of_expert[matrix]));
  }
  return all;
}

bool all_have_one(const ParameterSet& parameters, const std::vector<std::vector<std::string>>& names,
                  size_t matrix) {
  const bool first = parameters.knows(layout::adapter_down_name(names[0][matrix]));
  for (const auto& of_expert : names) {
    if (parameters.knows(layout::adapter_down_name(of_expert[matrix])) == first) continue;
    throw Error({.code = ExitCode::kUsage,
                 .what = "some experts of a layer would have adapters and others none",
                 .expected = "a pattern that fits the matrix of every expert of a layer",
                 .found = fmt::format("{} {}, {} not", names[0][matrix], first ? "fits" : "does not",
                                      of_expert[matrix]),
                 .where = "lora.targets",
                 .hint = "lora.targets=\"*.experts.*\""});
  }
  return first;
}

}  // namespace

ExpertAdapters::ExpertAdapters(ParameterSet& parameters, const Parameter& weight,
                               const std::vector<std::vector<std::string>>& names) {
  std::vector<size_t> adapted;
  for (size_t matrix = 0; matrix < names[0].size(); ++matrix) {
    if (all_have_one(parameters, names, matrix)) adapted.push_back(matrix);
  }
  if (adapted.empty()) return;
  if (parameters.place().mesh.size(layout::Axis::kEtp) > 1) {
    throw Error(
        {.code = ExitCode::kUsage,
         .what = "adapters of experts cannot be summed over ranks that share the tensors of an expert",
         .expected = "parallel.etp = 1, or targets without experts",
         .found = fmt::format("parallel.etp = {}", parameters.place().mesh.size(layout::Axis::kEtp)),
         .where = weight.name,
         .hint = "parallel.etp=1 with parallel.ep"});
  }
  if (weight.int8 || parameters.knows(layout::adapter_magnitude_name(names[0][adapted[0]]))) {
    throw Error({.code = ExitCode::kUsage,
                 .what = weight.int8 ? "adapters cannot stand beside experts in eight bits"
                                     : "experts cannot have adapters of kind dora",
                 .expected = weight.int8 ? "weights in the working precision" : "lora or rslora",
                 .found = weight.name,
                 .where = weight.int8 ? "the model" : "lora.kind",
                 .hint = weight.int8 ? "`longhaul checkpoint merge RUN DIR`, and use DIR"
                                     : "lora.kind=rslora, or lora.targets without experts"});
  }
  down_ = &parameters.add_experts(layout::adapter_down_name(weight.name),
                                  names_beside(names, adapted, layout::adapter_down_name));
  ups_.resize(names[0].size(), nullptr);
  for (const size_t matrix : adapted) {
    const auto of_all = names_beside(names, {matrix}, layout::adapter_up_name);
    ups_[matrix] = &parameters.add_experts(fmt::format("{}.{}", weight.name, of_all[0][0]), of_all);
  }
  if (!down_->parts.empty()) scale_ = down_->parts[0].spec.adapter_of.scale;
}

Tensor ExpertAdapters::product(const Tensor& x, const std::vector<int64_t>& rows_per_expert,
                               const kernels::LinearWeights& base,
                               const std::shared_ptr<kernels::Postponed>& later) const {
  const Tensor y = kernels::grouped_linear(x, rows_per_expert, base.weight, base.sinks.weight, base.kept);
  const Tensor z =
      kernels::grouped_linear(x, rows_per_expert, down_->value, down_->sink().into(later), down_->kept())
          .mul(scale_);
  int64_t adapted = 0;
  for (const Parameter* const up : ups_) adapted += up != nullptr ? 1 : 0;
  const int64_t rank = z.size(1) / adapted, out = y.size(1) / static_cast<int64_t>(ups_.size());
  std::vector<Tensor> added;
  int64_t first = 0;
  for (Parameter* const up : ups_) {
    if (up == nullptr) {
      added.push_back(at::zeros({y.size(0), out}, y.options()));
      continue;
    }
    const Tensor own = z.narrow(1, first, rank).contiguous();
    added.push_back(
        kernels::grouped_linear(own, rows_per_expert, up->value, up->sink().into(later), up->kept()));
    first += rank;
  }
  return y + (added.size() == 1 ? added[0] : at::cat(added, 1));
}

}  // namespace longhaul::model
