// What small states cross context ranks: of every piece of a row (context_pieces.h) some rows that say what it leaves, gathered by all ranks, each
// of which then works out by itself what enters its own pieces. Inside autograd: gradients of these rows are summed over the ranks.
//
//   short convolution   the last W − 1 inputs of a piece                                      entering: of the pieces before, as many as there are
//
// The recurrence's states are large and go other ways (context_recurrence.h). Collective calls of the group.
#pragma once

#include <functional>

#include "comm/communicator.h"
#include "kernels/short_convolution/op.h"
#include "parallel/context_pieces.h"
#include "tensor/tensor.h"

namespace longhaul::parallel {

// `count` says how many rows each piece has (all ranks know), `own` makes those of this rank's pieces, [count, …] like `like`. → one tensor a
// piece, in the order of the row. Where no piece has rows nothing is sent.
struct GatheredRows {
  Tensor all;
  std::vector<Tensor> of_piece;
};
GatheredRows gather_of_pieces(comm::Communicator& group, const std::vector<ContextPiece>& pieces,
                              const std::function<int64_t(const ContextPiece&)>& count,
                              const std::function<Tensor(const ContextPiece&)>& own, const Tensor& like, const char* name);

// y, whose backward pass comes by that gathering whether this rank used it or not: ranks meet there.
Tensor joined_with(const Tensor& y, const GatheredRows& gathered);

// kernels::short_convolution of this rank's tokens of the row → y.
Tensor context_convolution(comm::Communicator& group, const Tensor& x_tc, const Tensor& weight_cw, const Tensor& bias_c,
                           const layout::SequenceView& view, const kernels::ShortConvolutionOptions& options);

}  // namespace longhaul::parallel
