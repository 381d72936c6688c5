#include "model/expert_capacity.h"

#include <cmath>
#include <numeric>

#include "tensor/to_tensor.h"

namespace longhaul::model {
namespace {

// Of each sequence of the row.
std::vector<int64_t> lengths_of(const layout::SequenceLayout& layout) {
  if (layout.row_offsets.size() < 2) return {layout.tokens()};
  std::vector<int64_t> lengths;
  for (size_t s = 1; s < layout.row_offsets.size(); ++s) lengths.push_back(layout.row_offsets[s] - layout.row_offsets[s - 1]);
  return lengths;
}

// The row's choices and weights, [tokens of the row, 2 k] fp64, whole on every rank: each puts its own tokens among zeros.
Tensor of_the_row(const Tensor& choice, const Tensor& weight, const Tensor& own_tokens, int64_t tokens, ParallelOps& ops) {
  const Tensor own = at::cat({choice.to(at::kDouble), weight.detach().to(at::kDouble)}, 1);
  return ops.sum_statistics(at::zeros({tokens, own.size(1)}, own.options()).index_copy_(0, own_tokens, own));
}

}  // namespace

KeptChoices within_capacity(const Tensor& choice, const Tensor& weight, int64_t experts, const recipe::RouterOptions& options,
                            const layout::SequenceView& view, ParallelOps& ops) {
  const at::NoGradGuard no_gradient;
  const int64_t k = choice.size(1), tokens = view.layout.tokens();
  if (tokens == 0 || choice.is_meta()) return {choice, at::zeros({}, weight.options())};  // of meta tensors nobody knows
  const at::Device device = choice.device();
  const auto own = std::span(view.token_index).subspan(static_cast<size_t>(view.own.begin), static_cast<size_t>(view.own.length));
  const Tensor own_tokens = to_tensor(std::vector<int64_t>(own.begin(), own.end()), device);
  const Tensor row = of_the_row(choice, weight, own_tokens, tokens, ops);

  std::vector<int64_t> sequences, rooms;  // of each token; of each (sequence, expert)
  const std::vector<int64_t> lengths = lengths_of(view.layout);
  for (size_t s = 0; s < lengths.size(); ++s) {
    const double room = options.capacity_factor * static_cast<double>(k * lengths[s]) / static_cast<double>(experts);
    sequences.insert(sequences.end(), static_cast<size_t>(lengths[s]), static_cast<int64_t>(s));
    rooms.insert(rooms.end(), static_cast<size_t>(experts), static_cast<int64_t>(std::ceil(room)));
  }
  // Choices by (sequence, expert), and among those in the order in which they are kept; each has a number within its own.
  const auto cells = static_cast<int64_t>(rooms.size());
  const Tensor cell = row.narrow(1, 0, k).to(at::kLong).add(to_tensor(sequences, device).unsqueeze(1), experts).reshape({-1});
  const auto sorted = [](const Tensor& x, bool descending) { return std::get<1>(x.sort(/*stable=*/true, 0, descending)); };
  const bool by_weight = options.dropped == recipe::Dropped::kLeast;
  const Tensor wished = by_weight ? sorted(row.narrow(1, k, k).reshape({-1}), true) : at::arange(tokens * k, choice.options());
  const Tensor order = wished.index_select(0, sorted(cell.index_select(0, wished), false));
  const Tensor cell_r = cell.index_select(0, order), counts = at::bincount(cell, {}, cells);
  const Tensor number = at::arange(tokens * k, choice.options()).sub(counts.cumsum(0).sub(counts).index_select(0, cell_r));
  const Tensor kept = at::empty({tokens * k}, choice.options().dtype(at::kBool))
                          .index_copy_(0, order, number.lt(to_tensor(rooms, device).index_select(0, cell_r)))
                          .view({tokens, k});
  return {at::where(kept.index_select(0, own_tokens), choice, -1), kept.logical_not().to(weight.scalar_type()).mean()};
}

}  // namespace longhaul::model
