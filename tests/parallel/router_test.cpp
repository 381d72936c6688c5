// What is decided for a whole sequence when ranks share one: a choice balanced by Sinkhorn's iteration, and
// thresholds by quantiles. Bit for bit those of one process, with one sum where a sequence is cut and nothing
// sent where none is.
#include <gtest/gtest.h>

#include "comm/threads/run_ranks.h"
#include "comm/wrappers/call_log.h"
#include "comm/wrappers/traced.h"
#include "model/experts/router_quantile.h"
#include "model/experts/router_sinkhorn.h"
#include "own_rows.h"
#include "parallel/mesh_ops.h"
#include "support/tensors.h"

namespace longhaul::parallel {
namespace {

constexpr int64_t kRouted = 5, kRoutedRows = 4, kTokensOfRow = 26;  // experts, sequences, tokens of each

struct RouterCase {
  int64_t world;
  layout::MeshShape shape;
  layout::ContextSplit split = layout::ContextSplit::kContiguous;
  int64_t sums = 0;  // calls of a rank
};

// On each rank: what `decide` makes of a rank's own rows (rows, view, operators) takes as many sums as the
// case has, and is as `expect` (world, own rows, view and operators, what was made) demands.
template <class Decide, class Expect>
void on_ranks(const RouterCase& test, const Tensor& rows, const Decide& decide, const Expect& expect) {
  const layout::Mesh mesh(test.world, test.shape);
  SCOPED_TRACE(mesh.text());
  comm::run_ranks(test.world, [&](comm::Communicator& world) {
    const auto log = std::make_shared<comm::CallLog>(world.rank(), 16);
    comm::Traced traced(comm::borrowed(world), log);
    const MeshGroups groups(traced, mesh);
    MeshOps ops(groups, {.split = test.split}, {});
    const OwnRows own(groups, kRoutedRows, kTokensOfRow, test.split);
    const int64_t before = calls_of(*log, comm::CallKind::kAllReduce);
    const Tensor found = decide(rows.index_select(0, own.index), own.view, ops);
    EXPECT_EQ(calls_of(*log, comm::CallKind::kAllReduce) - before, test.sums);
    expect(traced, own, ops, found);
  });
}

void check_sinkhorn(const RouterCase& test) {
  Tensor logits = longhaul::testing::random_tensor({kRoutedRows * kTokensOfRow, kRouted}, 3, at::kFloat);
  logits.select(1, 1).add_(2);
  model::LocalOps alone;
  const Tensor expected =
      model::balanced_by_sinkhorn(logits, layout::make_batch(kRoutedRows, kTokensOfRow), alone);
  on_ranks(test, logits, model::balanced_by_sinkhorn,
           [&](comm::Communicator& world, const OwnRows& own, MeshOps& ops, const Tensor& found) {
             EXPECT_TRUE(found.equal(expected.index_select(0, own.index))) << "rank " << world.rank();
             // Of meta tensors, as in a dry run, too.
             const auto meta = at::TensorOptions(at::kMeta).dtype(at::kFloat);
             const bool whole = test.sums == 0;
             EXPECT_TRUE(!whole || model::balanced_by_sinkhorn(
                                       at::empty({own.view.own.length, kRouted}, meta), own.view, ops)
                                       .is_meta());
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

void check_quantiles(const RouterCase& test) {
  const Tensor logits =
                   longhaul::testing::random_tensor({kRoutedRows * kTokensOfRow, kRouted}, 3, at::kFloat),
               bias = logits[0];
  const auto quantiles = [&](const Tensor& rows, const layout::SequenceView& view, model::ParallelOps& ops) {
    return model::quantiles_of(rows, bias, 2, view, ops);
  };
  model::LocalOps alone;
  const Tensor expected = quantiles(logits, layout::make_batch(kRoutedRows, kTokensOfRow), alone);
  ASSERT_EQ(expected[kRouted].item<int64_t>(), kRoutedRows);
  on_ranks(test, logits, quantiles,
           [&](comm::Communicator& world, const OwnRows&, MeshOps&, const Tensor& sums) {
             world.all_reduce(sums, comm::Reduction::kSum, {.name = "all ranks"}).wait();
             // Where ranks share a cut sequence each has told of it.
             EXPECT_TRUE(sums.equal(expected.mul(sums[kRouted].item<int64_t>() / kRoutedRows)))
                 << "rank " << world.rank();
           });
}

TEST(QuantilesOfRanks, AreThoseOfOneProcess) {
  using enum layout::ContextSplit;
  check_quantiles({.world = 4, .shape = {}});
  check_quantiles({.world = 2, .shape = {.tp = 2}});  // two sequences each
  check_quantiles({.world = 8, .shape = {.cp = 4, .tp = 2}, .split = kContiguous, .sums = 1});
  check_quantiles({.world = 8, .shape = {.cp = 2, .tp = 2}, .split = kZigzag, .sums = 1});
}

}  // namespace
}  // namespace longhaul::parallel
