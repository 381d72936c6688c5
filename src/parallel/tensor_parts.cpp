#include "parallel/tensor_parts.h"

#include <algorithm>

#include "layout/split.h"
#include "parallel/collectives.h"

namespace longhaul::parallel {

using model::BlockInput;
using model::Summand;

TensorParts::TensorParts(comm::Communicator& group, const std::vector<int64_t>& rows, int64_t chunks)
    : group_(group) {
  const int64_t count = std::clamp<int64_t>(std::ranges::min(rows), 1, chunks);
  for (int64_t part = 0; part < count; ++part) {
    std::vector<int64_t>& of_ranks = rows_.emplace_back();
    for (const int64_t of_rank : rows) of_ranks.push_back(layout::even_part(of_rank, count, part).length);
  }
}

// Of each rank in its turn, its rows of all parts.
std::vector<Tensor> TensorParts::in_parts(const Tensor& x) const {
  if (count() == 1) return {x};
  std::vector<int64_t> lengths;
  for (size_t rank = 0; rank < rows_[0].size(); ++rank) {
    for (const auto& of_part : rows_) lengths.push_back(of_part[rank]);
  }
  const std::vector<Tensor> runs = x.split_with_sizes(lengths);
  std::vector<Tensor> parts;
  for (size_t part = 0; part < count(); ++part) {
    std::vector<Tensor> of_ranks;
    for (size_t rank = 0; rank < rows_[0].size(); ++rank) of_ranks.push_back(runs[rank * count() + part]);
    parts.push_back(at::cat(of_ranks));
  }
  return parts;
}

Tensor TensorParts::in_order(const std::vector<Tensor>& parts) const {
  if (count() == 1) return parts[0];
  std::vector<std::vector<Tensor>> runs;
  for (size_t part = 0; part < count(); ++part) runs.push_back(parts[part].split_with_sizes(rows_[part]));
  std::vector<Tensor> ordered;
  for (size_t rank = 0; rank < rows_[0].size(); ++rank) {
    for (const auto& of_part : runs) ordered.push_back(of_part[rank]);
  }
  return at::cat(ordered);
}

void TensorParts::begin_to_gather(BlockInput& input) const {
  if (!input.parts.empty()) return;
  std::vector<int64_t> own;
  for (const auto& of_part : rows_) own.push_back(of_part[static_cast<size_t>(group_.rank())]);
  const std::vector<Tensor> runs =
      count() == 1 ? std::vector<Tensor>{input.own_td} : input.own_td.split_with_sizes(own);
  for (size_t part = 0; part < count(); ++part) {
    const Begun begun = begin_gather_rows(group_, runs[part], rows_[part], kTensorTokens);
    input.parts.push_back({.arrived = [begun] { return end(begun); }});
  }
}

Tensor TensorParts::arrived(BlockInput& input, size_t part) const {
  BlockInput::Part& of = input.parts[part];
  if (!of.rows_td.defined()) {
    of.rows_td = of.arrived();
    of.arrived = {};
  }
  return of.rows_td;
}

std::vector<Tensor> TensorParts::of_gathered(BlockInput& input, const model::RowFunction& products) const {
  begin_to_gather(input);
  std::vector<std::vector<Tensor>> made;  // by matrix and part
  for (size_t part = 0; part < count(); ++part) {
    const std::vector<Tensor> of_part = products(arrived(input, part));
    made.resize(of_part.size());
    for (size_t i = 0; i < of_part.size(); ++i) made[i].push_back(of_part[i]);
  }
  std::vector<Tensor> results;
  for (const auto& parts : made) results.push_back(in_order(parts));
  return results;
}

Tensor TensorParts::summed(BlockInput& input, const std::vector<Summand>& summands) const {
  std::vector<std::vector<Tensor>> rows;  // by summand and part; none: those of the input
  for (const Summand& each : summands) {
    rows.push_back(each.x_ti.defined() ? in_parts(each.x_ti) : std::vector<Tensor>());
    if (each.product && !each.x_ti.defined()) begin_to_gather(input);
  }
  std::vector<Begun> moving;
  for (size_t part = 0; part < count(); ++part) {
    Tensor partial;
    for (size_t i = 0; i < summands.size(); ++i) {
      if (!summands[i].product) continue;
      const Tensor made = summands[i].product(rows[i].empty() ? arrived(input, part) : rows[i][part]);
      partial = partial.defined() ? partial + made : made;
    }
    if (partial.defined())
      moving.push_back(begin_sum_scatter_rows(group_, partial, rows_[part], kTensorProducts));
  }
  std::vector<Tensor> ended;
  for (const Begun& begun : moving) ended.push_back(end(begun));
  Tensor sum = ended.empty() ? Tensor() : ended.size() == 1 ? ended[0] : at::cat(ended);
  for (const Summand& each : summands) {
    for (const Tensor& once : {each.bias_d, each.own_td}) {
      if (once.defined()) sum = sum.defined() ? sum + once : once;
    }
  }
  return sum;
}

}  // namespace longhaul::parallel
