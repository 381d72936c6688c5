#include "model/experts/expert_capacity.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/row_sharing.h"
#include "tensor/to_tensor.h"

namespace longhaul::model {
namespace {

using Numbers = std::vector<int64_t>;

int64_t room(const recipe::RouterOptions& options, int64_t choices, int64_t experts) {
  return static_cast<int64_t>(
      std::ceil(options.capacity_factor * static_cast<double>(choices) / static_cast<double>(experts)));
}

// Rooms of this replica's sequences, [sequences · experts], when all replicas' share: `wanted` likewise.
Numbers rooms_of_batch(const Tensor& wanted, int64_t experts, const recipe::RouterOptions& options,
                       int64_t choices, ParallelOps& ops) {
  const int64_t own = wanted.numel() / experts;
  const auto [all, first] = ops.of_replicas(wanted.view({own, experts}));
  const Tensor by_expert = all.cpu().t().contiguous();
  const int64_t sequences = by_expert.size(1), of_all = room(options, choices * (sequences / own), experts);
  const int64_t of_each = room(options, choices / own, experts);
  Numbers rooms(static_cast<size_t>(own * experts));
  for (int64_t e = 0; e < experts; ++e) {
    const std::span<const int64_t> of_expert{by_expert.const_data_ptr<int64_t>() + e * sequences,
                                             static_cast<size_t>(sequences)};
    const Numbers kept = options.capacity_of == recipe::CapacityOf::kLent ? lent_quotas(of_expert, of_each)
                                                                          : quotas(of_expert, of_all);
    for (int64_t s = 0; s < own; ++s)
      rooms[static_cast<size_t>(s * experts + e)] = kept[static_cast<size_t>(first + s)];
  }
  return rooms;
}

// [tokens, k] bool: of each (part, expert) the first `rooms`, by weight or as they come.
Tensor kept_of(const Tensor& cell, const Tensor& weight, const Tensor& rooms, const Tensor& counts,
               recipe::Dropped dropped) {
  const int64_t choices = cell.numel();
  const auto sorted = [](const Tensor& x, bool descending) {
    return std::get<1>(x.sort(/*stable=*/true, 0, descending));
  };
  // Choices by cell, and among those in the order in which they are kept; each has a number within its own.
  const Tensor wished = dropped == recipe::Dropped::kLeast ? sorted(weight.reshape({-1}), true)
                                                           : at::arange(choices, cell.options());
  const Tensor order = wished.index_select(0, sorted(cell.index_select(0, wished), false));
  const Tensor cell_r = cell.index_select(0, order);
  const Tensor number =
      at::arange(choices, cell.options()).sub(counts.cumsum(0).sub(counts).index_select(0, cell_r));
  return at::empty({choices}, cell.options().dtype(at::kBool))
      .index_copy_(0, order, number.lt(rooms.index_select(0, cell_r)))
      .view(weight.sizes());
}

}  // namespace

std::vector<int64_t> quotas(std::span<const int64_t> wanted, int64_t room) {
  const int64_t all = std::accumulate(wanted.begin(), wanted.end(), int64_t{0});
  Numbers kept(wanted.begin(), wanted.end());
  if (all <= room) return kept;
  int64_t left = room;
  for (int64_t& each : kept)
    each = static_cast<int64_t>(static_cast<__int128>(room) * each / all), left -= each;
  for (size_t s = 0; s < kept.size() && left > 0; ++s) {
    if (kept[s] < wanted[s]) ++kept[s], --left;
  }
  return kept;
}

std::vector<int64_t> lent_quotas(std::span<const int64_t> wanted, int64_t room) {
  Numbers kept, over;
  int64_t left = 0;
  for (const int64_t each : wanted) {
    kept.push_back(std::min(each, room)), over.push_back(each - kept.back());
    left += room - kept.back();
  }
  const Numbers lent = quotas(over, left);
  for (size_t s = 0; s < kept.size(); ++s) kept[s] += lent[s];
  return kept;
}

KeptChoices within_capacity(const Tensor& choice, const Tensor& weight, int64_t experts,
                            const recipe::RouterOptions& options, const layout::SequenceView& view,
                            ParallelOps& ops) {
  const at::NoGradGuard no_gradient;
  const int64_t k = choice.size(1), tokens = view.layout.tokens();
  const bool of_batch = options.capacity_of != recipe::CapacityOf::kSequence;
  if (tokens == 0) return {choice, at::zeros({}, weight.options())};
  const Numbers sequences = sequence_lengths(view.layout);
  const Parts parts = parts_of(sequences, of_batch ? 1 : options.capacity_parts);
  const Sharing sharing = sharing_of(view, parts);

  Numbers rooms;  // of each (part, expert)
  for (const int64_t length : parts.tokens)
    rooms.insert(rooms.end(), static_cast<size_t>(experts), room(options, k * length, experts));
  KeptChoices result;
  for (const auto& of_rank : sharing.tokens) {
    int64_t rows = 0, all = 0;
    for (const auto& [part, count] : of_rank) {
      // other replicas may leave it theirs
      rows += of_batch ? count : std::min(count, rooms[static_cast<size_t>(part * experts)]);
      all += count;
    }
    result.most_rows = std::max(result.most_rows, rows);
    result.most_tokens = std::max(result.most_tokens, all);
  }
  if (choice.is_meta()) {  // nobody knows the choices; the calls are made
    if (!sharing.whole) ops.sum_statistics(at::empty({tokens, 2 * k}, choice.options().dtype(at::kDouble)));
    if (of_batch && sharing.whole && sharing.tokens.size() > 1)
      ops.sum_statistics(at::empty({std::ssize(rooms)}, choice.options()));
    if (of_batch) ops.of_replicas(at::empty({std::ssize(sequences), experts}, choice.options()));
    result.choice_tk = choice;
    result.dropped_share = at::zeros({}, weight.options());
    return result;
  }

  const at::Device device = choice.device();
  const Tensor own_tokens = own_tokens_of(view, device), part = to_tensor(parts.of_token, device);
  // Judged are the tokens of the row, or, where no part is cut, this rank's own.
  const auto judged_here = [&] {
    return at::cat({choice.to(at::kDouble), weight.detach().to(at::kDouble)}, 1);
  };
  const Tensor row = sharing.whole ? Tensor() : of_the_row(judged_here(), view, ops);
  const Tensor judged = sharing.whole ? choice : row.narrow(1, 0, k).to(at::kLong);
  const Tensor weights = sharing.whole ? weight.detach().to(at::kDouble) : row.narrow(1, k, k);
  const Tensor part_t = sharing.whole ? part.index_select(0, own_tokens) : part;
  const Tensor cell = judged.add(part_t.unsqueeze(1), experts).reshape({-1});
  const Tensor counts = at::bincount(cell, {}, std::ssize(rooms));
  if (of_batch) {
    const Tensor wanted =
        // of other ranks' sequences too
        sharing.whole && sharing.tokens.size() > 1 ? ops.sum_statistics(counts) : counts;
    rooms = rooms_of_batch(wanted, experts, options, k * tokens, ops);
  }
  const Tensor kept = kept_of(cell, weights, to_tensor(rooms, device), counts, options.dropped);
  result.choice_tk = at::where(sharing.whole ? kept : kept.index_select(0, own_tokens), choice, -1);
  result.dropped_share = kept.numel() == 0 ? at::zeros({}, weight.options())
                                           : kept.logical_not().to(weight.scalar_type()).mean();
  return result;
}

}  // namespace longhaul::model
