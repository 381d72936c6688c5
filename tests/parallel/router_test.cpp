// A choice balanced by Sinkhorn's iteration when ranks share a sequence: bit for bit that of one process, with one sum where a sequence is cut and
// nothing sent where none is.
#include <gtest/gtest.h>

#include "comm/call_log.h"
#include "comm/run_ranks.h"
#include "comm/traced.h"
#include "model/router_sinkhorn.h"
#include "parallel/mesh_ops.h"
#include "support/tensors.h"
#include "tensor/to_tensor.h"

namespace longhaul::parallel {
namespace {

using layout::Axis;

constexpr int64_t kRouted = 5, kRoutedRows = 4, kTokensOfRow = 26;  // experts, sequences, tokens of each

struct SinkhornCase {
  int64_t world;
  layout::MeshShape shape;
  layout::ContextSplit split = layout::ContextSplit::kContiguous;
  int64_t sums = 0;  // calls of a rank
};

void check_sinkhorn(const SinkhornCase& test) {
  const layout::Mesh mesh(test.world, test.shape);
  SCOPED_TRACE(mesh.text());
  Tensor logits = longhaul::testing::random_tensor({kRoutedRows * kTokensOfRow, kRouted}, 3, at::kFloat);
  logits.select(1, 1).add_(2);
  model::LocalOps alone;
  const Tensor expected = model::balanced_by_sinkhorn(logits, layout::make_batch(kRoutedRows, kTokensOfRow), alone);
  const int64_t own_rows = kRoutedRows / mesh.size(Axis::kDp);
  comm::run_ranks(test.world, [&](comm::Communicator& world) {
    const auto log = std::make_shared<comm::CallLog>(world.rank(), 16);
    comm::Traced traced(comm::borrowed(world), log);
    const MeshGroups groups(traced, mesh);
    MeshOps ops(groups, {.split = test.split}, {});
    const layout::MeshRank place = groups.place();
    const layout::SequenceView view(layout::make_batch(own_rows, kTokensOfRow), {.context_ranks = mesh.size(Axis::kCp),
                                                                                 .context_rank = place.coordinate(Axis::kCp),
                                                                                 .tensor_ranks = mesh.size(Axis::kTp),
                                                                                 .tensor_rank = place.coordinate(Axis::kTp),
                                                                                 .split = test.split});
    std::vector<int64_t> own;
    for (int64_t i = view.own.begin; i < view.own.end(); ++i)
      own.push_back(place.coordinate(Axis::kDp) * own_rows * kTokensOfRow + view.token_index[static_cast<size_t>(i)]);
    const Tensor index = to_tensor(own);
    const auto sums = [&] {
      int64_t count = 0;
      for (const auto& [of, totals] : log->totals()) count += of.second == comm::CallKind::kAllReduce ? totals.calls : 0;
      return count;
    };
    const int64_t before = sums();
    const Tensor found = model::balanced_by_sinkhorn(logits.index_select(0, index), view, ops);
    EXPECT_EQ(sums() - before, test.sums);
    EXPECT_TRUE(found.equal(expected.index_select(0, index))) << "rank " << world.rank();
    // Of meta tensors, as in a dry run, the same calls.
    const auto meta = at::TensorOptions(at::kMeta).dtype(at::kFloat);
    EXPECT_EQ(found.sizes(), logits.index_select(0, index).sizes());
    const bool whole = test.sums == 0;
    EXPECT_TRUE(!whole || model::balanced_by_sinkhorn(at::empty({view.own.length, kRouted}, meta), view, ops).is_meta());
  });
}

TEST(SinkhornOfRanks, IsThatOfOneProcess) {
  using enum layout::ContextSplit;
  check_sinkhorn({.world = 4, .shape = {}});
  check_sinkhorn({.world = 2, .shape = {.tp = 2}});  // two sequences each
  check_sinkhorn({.world = 8, .shape = {.cp = 4, .tp = 2}, .split = kContiguous, .sums = 1});
  check_sinkhorn({.world = 4, .shape = {.cp = 4}, .split = kZigzag, .sums = 1});
  check_sinkhorn({.world = 8, .shape = {.cp = 2, .tp = 2}, .split = kZigzag, .sums = 1});
}

}  // namespace
}  // namespace longhaul::parallel
