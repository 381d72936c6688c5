// How tensor-parallel ranks, which hold their own tokens between mixers (sequence parallelism), exchange them
// around the matrices of a block (docs/sources/megascale.md §3.3): products of gathered rows, and sums of
// products of which every rank keeps its own rows. Both work in parts: part c holds the c-th part of every
// rank's rows, so that
//
//   of_gathered   All parts are sent at once, and the product of one part is computed while later parts
//                 arrive.
//   summed        The sum of one part runs while the products of the next are computed; where these read
//                 gathered rows, those rows arrive meanwhile.
//
// The collectives come in halves (collectives.h), so the backward pass overlaps in the same way: the sum of
// the gradients of a part's rows runs during the products of the part before it. The bits of a row do not
// depend on the number of parts; the gradient of a weight is summed part by part.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "model/parallel_ops.h"

namespace longhaul::parallel {

inline constexpr const char* kTensorTokens = "tokens of the tensor ranks";
inline constexpr const char* kTensorProducts = "products of the tensor ranks";

class TensorParts {
 public:
  // rows: the number on each rank. There are at most `chunks` parts, and none is empty on any rank where that
  // can be avoided.
  TensorParts(comm::Communicator& group, const std::vector<int64_t>& rows, int64_t chunks);

  // As in ParallelOps. All ranks of the group make the same calls.
  std::vector<Tensor> of_gathered(model::BlockInput& input, const model::RowFunction& products) const;
  Tensor summed(model::BlockInput& input, const std::vector<model::Summand>& summands) const;

 private:
  void begin_to_gather(model::BlockInput& input) const;
  Tensor arrived(model::BlockInput& input, size_t part) const;
  std::vector<Tensor> in_parts(const Tensor& x) const;      // of rows in the order of tokens
  Tensor in_order(const std::vector<Tensor>& parts) const;  // the other way round
  size_t count() const { return rows_.size(); }

  comm::Communicator& group_;
  std::vector<std::vector<int64_t>> rows_;  // by part and rank
};

}  // namespace longhaul::parallel
