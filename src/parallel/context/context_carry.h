// How small states cross context ranks: for every piece of a row (context_pieces.h), all ranks gather a few
// rows that describe what the piece leaves behind, and each rank computes what enters its own pieces. Inside
// autograd: the gradients of these rows are summed over the ranks.
//
//   short convolution    the last W − 1 inputs of a piece      the inputs of the pieces before enter, as many
//                        as there are
//   decayed sum          h, and Π a, of a piece from zero      h ← Π a ⊙ h + h of the next piece
//   cumulative softmax   z of a piece from nothing             z ← log(e^z + e^z of the next piece)
//   toeplitz             S of a piece from zero                S ← λ^(length of the next piece) S + S of the
//                        next piece
//
// The states of recurrences are large and travel in other ways (context_recurrence.h). Collective calls of
// the group.
#pragma once

#include <functional>

#include "comm/communicator.h"
#include "kernels/scan/op.h"
#include "kernels/short_convolution/op.h"
#include "parallel/context/context_pieces.h"
#include "tensor/tensor.h"

namespace longhaul::parallel {

// `count` says how many rows each piece has (all ranks know), `own` makes those of this rank's pieces,
// [count, …] like `like`. → one tensor a piece, in the order of the row. Where no piece has rows nothing is
// sent. A layer that is recomputed keeps them; `again`: it gathers them again, for they are many.
struct GatheredRows {
  Tensor all;
  std::vector<Tensor> of_piece;
};
GatheredRows gather_of_pieces(comm::Communicator& group, const std::vector<ContextPiece>& pieces,
                              const std::function<int64_t(const ContextPiece&)>& count,
                              const std::function<Tensor(const ContextPiece&)>& own, const Tensor& like,
                              const char* name, bool again = false);

// Returns y such that the backward pass reaches the gathering even where this rank did not use its result,
// because all ranks meet there.
Tensor joined_with(const Tensor& y, const GatheredRows& gathered);

// kernels::short_convolution for this rank's tokens of the row; returns y.
Tensor context_convolution(comm::Communicator& group, const Tensor& x_tc, const Tensor& weight_cw,
                           const Tensor& bias_c, const layout::SequenceView& view,
                           const kernels::ShortConvolutionOptions& options);

// The scans, in the same way.
Tensor context_decayed_sum(comm::Communicator& group, const Tensor& a_tc, const Tensor& u_tc,
                           const layout::SequenceView& view);
kernels::CumulativeSoftmax context_cumulative_softmax(comm::Communicator& group, const Tensor& x_tc,
                                                      const layout::SequenceView& view);

// kernels::toeplitz for this rank's tokens of the row; returns y.
Tensor context_toeplitz(comm::Communicator& group, const Tensor& x_tc, const Tensor& coefficient_ce,
                        const Tensor& log_decay_e, const layout::SequenceView& view);

}  // namespace longhaul::parallel
