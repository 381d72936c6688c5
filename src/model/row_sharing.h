// Who has what of the sequences of a row, where decisions are made for a whole sequence, or for a part of
// one: known to all ranks from the layout alone. Those that need every token of a part gather the row where
// ranks cut one.
#pragma once

#include <map>
#include <vector>

#include "layout/sequence_view.h"
#include "model/parallel_ops.h"

namespace longhaul::model {

std::vector<int64_t> sequence_lengths(const layout::SequenceLayout& layout);

// The runs of tokens that are decided for together.
struct Parts {
  std::vector<int64_t> of_token, tokens;  // of each token of the row its part; of each part its tokens
};
Parts parts_of(const std::vector<int64_t>& sequences, int64_t cuts);

// What the ranks that share the row have of the parts.
struct Sharing {
  bool whole = true;                               // no part is cut
  std::vector<std::map<int64_t, int64_t>> tokens;  // of each rank: how many of each part that it has any of
};
Sharing sharing_of(const layout::SequenceView& view, const Parts& parts);

// Of this rank's own tokens, where they stand in the row. int64
Tensor own_tokens_of(const layout::SequenceView& view, at::Device device);

// x [own tokens, …] of every rank that shares the row → [tokens of the row, …], whole on each of them: each
// puts its own among zeros. fp64, without a gradient; of meta tensors only the call is made.
Tensor of_the_row(const Tensor& x, const layout::SequenceView& view, ParallelOps& ops);

}  // namespace longhaul::model
