// How tensor ranks that have tokens of their own between mixers exchange them around a block's matrices (docs/sources/megascale.md §3.3): products of gathered
// rows, and sums of products that every rank keeps its own rows of. Both go in parts: part c has the c-th part of every rank's rows, so that
//
//   of_gathered   all parts are on their way at once, and the products of one are made while later ones come
//   summed        the sum of one part goes on while the products of the next are made; where these read gathered rows, those come meanwhile too
//
// The collectives come in halves (collectives.h), so the backward pass overlaps the same way: the sum of gradients of a part's rows goes on
// behind the products of the part before it. A row's bits do not depend on the number of parts; a weight's gradient is summed part by part.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "model/parallel_ops.h"

namespace longhaul::parallel {

inline constexpr const char* kTensorTokens = "tokens of the tensor ranks";
inline constexpr const char* kTensorProducts = "products of the tensor ranks";

class TensorParts {
 public:
  // rows: of each rank. At most `chunks` parts, none of them empty on any rank if there is a choice.
  TensorParts(comm::Communicator& group, const std::vector<int64_t>& rows, int64_t chunks);

  // As in ParallelOps. All ranks of the group call the same.
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
