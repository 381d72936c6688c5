// HeadExchange: context ranks that are neighbours deal out heads instead of tokens: each gives all heads of
// its own tokens away and receives all of their tokens for its share of the heads, in the order of the row,
// by one all-to-all; and back (DeepSpeed-Ulysses, arXiv 2309.14509; docs/sources/long-context-parallelism.md
// A6). Inside autograd: the backward pass is the opposite exchange. Collective calls of the group, in which
// ranks that are no neighbours exchange nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "parallel/context/context_pieces.h"
#include "tensor/tensor.h"

namespace longhaul::parallel {

// `inner` neighbours among the context ranks, who hold together some runs of the row: rank first, first + 1,
// ….
struct Neighbours {
  int64_t first = 0;
  std::vector<layout::Range> runs;  // in the order of the row
  // tokens of one rank after the other: element i of the runs is token order[i] of these
  std::vector<int64_t> order;
  std::vector<int64_t> rank_tokens;  // of each
};
Neighbours neighbours_of(const layout::SequenceView& view, const std::vector<ContextPiece>& pieces,
                         int64_t first, int64_t inner);

class HeadExchange {
 public:
  // `all`: the neighbours to which this rank belongs. Their number must divide the heads.
  HeadExchange(comm::Communicator& group, const Neighbours& all, at::Device device);

  // All heads of own tokens → the own share of the heads of the neighbours' tokens, in the order of their
  // runs; and the other way.
  Tensor to_heads(const Tensor& x_thd, const char* name) const;
  Tensor to_tokens(const Tensor& x_nhd, const char* name) const;

 private:
  comm::Communicator& group_;
  int64_t ranks_, own_tokens_;
  // of the exchange, by rank: of own tokens, and of the neighbours' to their ranks
  std::vector<int64_t> own_rows_, rows_;
  Tensor order_, back_;
};

}  // namespace longhaul::parallel
