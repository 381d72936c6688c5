// The scans of context_carry.h.
#include <algorithm>
#include <limits>

#include "kernels/toeplitz/op.h"
#include "parallel/context/context_carry.h"
#include "tensor/to_tensor.h"

namespace longhaul::parallel {
namespace {

// The last run of a piece, if it goes on in the next one.
bool leaves_piece(const std::vector<ContextPiece>& pieces, const ContextPiece& piece) {
  const auto next = static_cast<size_t>(&piece - pieces.data()) + 1;
  return next < pieces.size() && pieces[next].follows;
}

Tensor last_run(const ContextPiece& piece, const Tensor& x) {
  const int64_t begin = piece.offsets[piece.offsets.size() - 2];
  return x.narrow(0, piece.local_begin + begin, piece.tokens.length - begin);
}

// Calls run(piece, entering) for this rank's pieces, in the order of its tokens, and puts what it returns,
// several tensors each, together. next(entering, of a piece, piece): what leaves it.
template <class Run, class Next>
std::vector<Tensor> over_pieces(comm::Communicator& group, const std::vector<ContextPiece>& pieces,
                                const GatheredRows& gathered, const std::vector<Tensor>& none,
                                const Next& next, const Run& run) {
  std::vector<std::pair<int64_t, std::vector<Tensor>>> own;
  Tensor state;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const ContextPiece& piece = pieces[i];
    const Tensor entering = piece.follows ? state : Tensor();
    if (piece.rank == group.rank()) own.emplace_back(piece.local_begin, run(piece, entering));
    if (leaves_piece(pieces, piece))
      state = next(piece.one_run() ? entering : Tensor(), gathered.of_piece[i], piece);
  }
  std::ranges::sort(own, {}, &std::pair<int64_t, std::vector<Tensor>>::first);
  std::vector<Tensor> all;
  for (size_t r = 0; r < none.size(); ++r) {
    std::vector<Tensor> rows{none[r]};
    for (const auto& each : own) rows.push_back(each.second[r]);
    all.push_back(joined_with(at::cat(rows), gathered));
  }
  return all;
}

// Of a piece's runs: the first one's, and `otherwise` for the rest.
Tensor of_runs(const ContextPiece& piece, const Tensor& first, double otherwise) {
  std::vector<int64_t> rest = first.sizes().vec();
  rest.insert(rest.begin(), piece.runs() - 1);
  return at::cat({first.unsqueeze(0), at::full(rest, otherwise, first.options().requires_grad(false))});
}

}  // namespace

Tensor context_decayed_sum(comm::Communicator& group, const Tensor& a, const Tensor& u,
                           const layout::SequenceView& view) {
  const std::vector<ContextPiece> pieces = context_pieces(view);
  const GatheredRows gathered = gather_of_pieces(
      group, pieces, [&](const ContextPiece& piece) { return leaves_piece(pieces, piece) ? 2 : 0; },
      [&](const ContextPiece& piece) {
        const Tensor decays = last_run(piece, a),
                     sum = kernels::decayed_sum(decays, last_run(piece, u), {}, {}).final_state_nc;
        const Tensor whole =
            kernels::decayed_sum(decays, at::zeros_like(last_run(piece, u)), {}, at::ones_like(sum))
                .final_state_nc;
        return at::cat({sum, whole});
      },
      a.narrow(0, 0, 0), "sums of a scan");
  return over_pieces(
      group, pieces, gathered, {u.narrow(0, 0, 0)},
      [](const Tensor& entering, const Tensor& rows, const ContextPiece&) {
        return entering.defined() ? rows[1] * entering + rows[0] : rows[0];
      },
      [&](const ContextPiece& piece, const Tensor& entering) {
        const auto rows = [&](const Tensor& x) {
          return x.narrow(0, piece.local_begin, piece.tokens.length);
        };
        const Tensor initial = entering.defined() ? of_runs(piece, entering, 0) : Tensor();
        return std::vector<Tensor>{
            kernels::decayed_sum(rows(a), rows(u), to_tensor(piece.offsets), initial).h_tc};
      })[0];
}

kernels::CumulativeSoftmax context_cumulative_softmax(comm::Communicator& group, const Tensor& x,
                                                      const layout::SequenceView& view) {
  const std::vector<ContextPiece> pieces = context_pieces(view);
  const auto wide = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor none = x.narrow(0, 0, 0);
  const GatheredRows gathered = gather_of_pieces(
      group, pieces, [&](const ContextPiece& piece) { return leaves_piece(pieces, piece) ? 1 : 0; },
      [&](const ContextPiece& piece) { return last_run(piece, x).to(wide).logsumexp(0, /*keepdim=*/true); },
      none.to(wide), "sums of a cumulative softmax");
  const std::vector<Tensor> made = over_pieces(
      group, pieces, gathered, {none, none.to(wide)},
      [](const Tensor& entering, const Tensor& rows, const ContextPiece&) {
        return entering.defined() ? at::logaddexp(entering, rows[0]) : rows[0];
      },
      [&](const ContextPiece& piece, const Tensor& entering) {
        const Tensor initial = entering.defined()
                                   ? of_runs(piece, entering, -std::numeric_limits<double>::infinity())
                                   : Tensor();
        const auto part = kernels::cumulative_softmax(x.narrow(0, piece.local_begin, piece.tokens.length),
                                                      to_tensor(piece.offsets), initial);
        return std::vector<Tensor>{part.k_tc, part.log_decay_tc};
      });
  return {made[0], made[1], Tensor()};
}

Tensor context_toeplitz(comm::Communicator& group, const Tensor& x, const Tensor& coefficient,
                        const Tensor& log_decay, const layout::SequenceView& view) {
  const std::vector<ContextPiece> pieces = context_pieces(view);
  const Tensor none = x.narrow(0, 0, 0),
               no_state =
                   none.to(log_decay.scalar_type()).unsqueeze(1).expand({0, log_decay.size(0), x.size(1)});
  const GatheredRows gathered = gather_of_pieces(
      group, pieces, [&](const ContextPiece& piece) { return leaves_piece(pieces, piece) ? 1 : 0; },
      [&](const ContextPiece& piece) {
        return kernels::toeplitz(last_run(piece, x), coefficient, log_decay, {}, {}).final_state_ned;
      },
      no_state, "sums of a Toeplitz encoding");
  return over_pieces(
      group, pieces, gathered, {none},
      [&](const Tensor& entering, const Tensor& rows, const ContextPiece& piece) {
        if (!entering.defined()) return rows[0];
        return log_decay.mul(piece.tokens.length).exp().unsqueeze(1) * entering + rows[0];
      },
      [&](const ContextPiece& piece, const Tensor& entering) {
        const Tensor initial = entering.defined() ? of_runs(piece, entering, 0) : Tensor();
        const Tensor rows = x.narrow(0, piece.local_begin, piece.tokens.length);
        return std::vector<Tensor>{kernels::toeplitz(rows, coefficient, log_decay, to_tensor(piece.offsets),
                                                     initial, /*with_state=*/false)
                                       .y_td};
      })[0];
}

}  // namespace longhaul::parallel
