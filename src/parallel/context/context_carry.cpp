#include "parallel/context/context_carry.h"

#include <algorithm>

#include "kernels/differentiable.h"
#include "parallel/collectives.h"
#include "tensor/to_tensor.h"

namespace longhaul::parallel {

GatheredRows gather_of_pieces(comm::Communicator& group, const std::vector<ContextPiece>& pieces,
                              const std::function<int64_t(const ContextPiece&)>& count,
                              const std::function<Tensor(const ContextPiece&)>& own, const Tensor& like,
                              const char* name, bool again) {
  std::vector<int64_t> rows(static_cast<size_t>(group.size())), next(rows.size());
  std::vector<Tensor> mine{like.narrow(0, 0, 0)};
  for (const ContextPiece& piece : pieces) {
    rows[static_cast<size_t>(piece.rank)] += count(piece);
    if (piece.rank == group.rank() && count(piece) > 0) mine.push_back(own(piece));
  }
  GatheredRows result;
  if (std::ranges::all_of(rows, [](int64_t of_rank) { return of_rank == 0; })) {
    result.of_piece.assign(pieces.size(), mine[0]);
    return result;
  }
  result.all = (again ? gather_rows : gather_rows_once)(group, at::cat(mine), rows, name);
  for (size_t r = 1; r < rows.size(); ++r) next[r] = next[r - 1] + rows[r - 1];
  for (const ContextPiece& piece : pieces) {
    int64_t& begin = next[static_cast<size_t>(piece.rank)];
    result.of_piece.push_back(result.all.narrow(0, begin, count(piece)));
    begin += count(piece);
  }
  return result;
}

Tensor joined_with(const Tensor& y, const GatheredRows& gathered) {
  if (!gathered.all.defined()) return y;
  return kernels::differentiable("joined_with", {y, gathered.all}, [&]() -> kernels::Recorded {
    return {.results = {y.view_as(y)},
            .saved = {gathered.all},
            .backward = [](const kernels::BackwardCall& call) {
              return std::vector<Tensor>{call.gradients[0], at::zeros_like(call.saved[0])};
            }};
  })[0];
}

Tensor context_convolution(comm::Communicator& group, const Tensor& x, const Tensor& weight,
                           const Tensor& bias, const layout::SequenceView& view,
                           const kernels::ShortConvolutionOptions& options) {
  const int64_t history = weight.size(1) - 1, channels = x.size(1);
  const std::vector<ContextPiece> pieces = context_pieces(view);
  const auto leaves = [&](const ContextPiece& piece) {
    return std::min(history, piece.tokens.length - piece.offsets[piece.offsets.size() - 2]);
  };
  const auto last_rows = [&](const ContextPiece& piece) {
    return x.narrow(0, piece.local_begin + piece.tokens.length - leaves(piece), leaves(piece));
  };
  const GatheredRows tails =
      gather_of_pieces(group, pieces, leaves, last_rows, x, "inputs of the short convolution");
  Tensor entering;  // the last inputs of the document that goes on, at most `history` rows; undefined: none
  std::vector<Tensor> y{x.narrow(0, 0, 0)};
  std::vector<std::pair<int64_t, Tensor>> own;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const ContextPiece& piece = pieces[i];
    const Tensor before = piece.follows ? entering : Tensor();
    if (piece.rank == group.rank()) {
      const Tensor state = at::zeros({piece.runs(), history, channels}, x.options().requires_grad(false));
      Tensor first = state.narrow(0, 0, 1);
      if (before.defined())
        first = at::cat({first[0].narrow(0, 0, history - before.size(0)), before}).unsqueeze(0);
      const Tensor initial = at::cat({first, state.narrow(0, 1, piece.runs() - 1)});
      const Tensor rows = x.narrow(0, piece.local_begin, piece.tokens.length);
      own.emplace_back(
          piece.local_begin,
          kernels::short_convolution(rows, weight, bias, to_tensor(piece.offsets), initial, options).y_tc);
    }
    const Tensor& tail = tails.of_piece[i];
    const bool through = before.defined() && piece.one_run() && tail.size(0) < history;
    entering = through
                   ? at::cat({before.narrow(0, std::max<int64_t>(0, before.size(0) + tail.size(0) - history),
                                            std::min(before.size(0), history - tail.size(0))),
                              tail})
                   : tail;
  }
  std::ranges::sort(own, {}, &std::pair<int64_t, Tensor>::first);
  for (const auto& [begin, rows] : own) y.push_back(rows);
  return joined_with(at::cat(y), tails);
}

}  // namespace longhaul::parallel
