// What a rank has of a batch of rows of equal length that data ranks deal out and context and tensor ranks
// cut; and how often it has called others.
#pragma once

#include "comm/wrappers/call_log.h"
#include "layout/sequence_view.h"
#include "parallel/mesh_groups.h"
#include "tensor/to_tensor.h"

namespace longhaul::parallel {

struct OwnRows {
  OwnRows(const MeshGroups& groups, int64_t rows, int64_t tokens, layout::ContextSplit split)
      : view(layout::make_batch(rows / groups.size(layout::Axis::kDp), tokens),
             {.context_ranks = groups.size(layout::Axis::kCp),
              .context_rank = groups.place().coordinate(layout::Axis::kCp),
              .tensor_ranks = groups.size(layout::Axis::kTp),
              .tensor_rank = groups.place().coordinate(layout::Axis::kTp),
              .split = split}) {
    const int64_t first =
        groups.place().coordinate(layout::Axis::kDp) * (rows / groups.size(layout::Axis::kDp)) * tokens;
    std::vector<int64_t> own;
    for (int64_t i = view.own.begin; i < view.own.end(); ++i)
      own.push_back(first + view.token_index[static_cast<size_t>(i)]);
    index = to_tensor(own);
  }
  layout::SequenceView view;
  Tensor index;  // of its own tokens, in the whole batch
};

inline int64_t calls_of(const comm::CallLog& log, comm::CallKind kind) {
  int64_t count = 0;
  for (const auto& [of, totals] : log.totals()) count += of.second == kind ? totals.calls : 0;
  return count;
}

}  // namespace longhaul::parallel
