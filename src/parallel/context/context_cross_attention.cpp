#include "parallel/context/context_cross_attention.h"

#include <algorithm>
#include <numeric>

#include "kernels/experts/rows.h"
#include "parallel/collectives.h"
#include "tensor/to_tensor.h"

namespace longhaul::parallel {
namespace {

using layout::Segment;
using layout::SequenceView;

// The rows of the memory's packed row that each run of this rank's queries sees, run after run. A document
// with two runs has its memory twice.
struct SeenRows {
  std::vector<int64_t> query_offsets = {0}, key_offsets = {0};
  std::vector<int64_t> rows;
};

SeenRows seen_by(const SequenceView& view, const SequenceView& memory, bool causal) {
  SeenRows seen;
  for (const Segment& run : view.segments) {
    const layout::Range keys = memory.layout.document(run.document);
    // A document's last query sees its last key, so that of the run sees as many fewer as there are queries
    // after it.
    const int64_t after = view.layout.document(run.document).length - (run.document_start + run.length);
    const int64_t count = causal ? std::max<int64_t>(0, keys.length - after) : keys.length;
    for (int64_t i = 0; i < count; ++i) seen.rows.push_back(keys.begin + i);
    seen.query_offsets.push_back(seen.query_offsets.back() + run.length);
    seen.key_offsets.push_back(std::ssize(seen.rows));
  }
  return seen;
}

Tensor taken(const Tensor& x_shd, const Tensor& index) {
  return kernels::take_rows(x_shd.flatten(1), index).view({index.size(0), x_shd.size(1), x_shd.size(2)});
}

}  // namespace

Tensor context_cross_attention(comm::Communicator& group, const Tensor& q, const Tensor& k, const Tensor& v,
                               const SequenceView& view, const SequenceView& memory,
                               const kernels::AttentionOptions& options) {
  Tensor keys = k, values = v;
  std::vector<int64_t> place(static_cast<size_t>(memory.layout.tokens()));  // of each row of the memory
  std::iota(place.begin(), place.end(), int64_t{0});
  if (memory.share.context_ranks > 1) {
    const std::vector<int64_t> lengths = memory.context_lengths();
    keys = gather_rows(group, k.contiguous(), lengths, "keys of a memory");
    values = gather_rows(group, v.contiguous(), lengths, "values of a memory");
    place = layout::inverse_permutation(memory.context_order());
  }
  // A rank without queries goes through the same graph, so that all of them sum gradients together.
  const SeenRows seen = seen_by(view, memory, options.causal);
  std::vector<int64_t> index;
  for (const int64_t row : seen.rows) index.push_back(place[static_cast<size_t>(row)]);
  const Tensor rows = to_tensor(index, q.device());
  return kernels::attention(q, taken(keys, rows), taken(values, rows), to_tensor(seen.query_offsets),
                            to_tensor(seen.key_offsets), options)
      .o_thd;
}

}  // namespace longhaul::parallel
