// What experts drop when ranks share a sequence, or a batch, against one process that has it whole; who tells
// whom; and how many rows and tokens a rank can have at most.
#include "model/experts/expert_capacity.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "comm/threads/run_ranks.h"
#include "comm/wrappers/call_log.h"
#include "comm/wrappers/traced.h"
#include "own_rows.h"
#include "parallel/mesh_ops.h"

namespace longhaul::parallel {
namespace {

constexpr int64_t kExpertCount = 6, kChoicesEach = 2, kSequences = 4, kRowTokens = 24;  // of each sequence

struct Batch {
  Tensor choice_tk = at::empty({kSequences * kRowTokens, kChoicesEach}, at::kLong),
         weight_tk = at::empty({kSequences * kRowTokens, kChoicesEach}, at::kDouble);
};

// The later sequences crowd on the first two experts.
Batch crowded_batch() {
  const RandomStream stream(3, "capacity of ranks");
  Batch made;
  for (int64_t t = 0; t < kSequences * kRowTokens; ++t) {
    const auto draw = [&](int64_t i, int64_t below) {
      return static_cast<int64_t>(
          stream.below(static_cast<uint64_t>(4 * t + i), static_cast<uint64_t>(below)));
    };
    const int64_t first = draw(0, 5) < t / kRowTokens ? draw(1, 2) : draw(1, kExpertCount);
    made.choice_tk[t][0] = first;
    made.choice_tk[t][1] = (first + 1 + draw(2, kExpertCount - 1)) % kExpertCount;
    made.weight_tk[t][0] = 0.125 * static_cast<double>(1 + draw(3, 7));
    made.weight_tk[t][1] = 1 - made.weight_tk[t][0].item<double>();
  }
  return made;
}

struct CapacityCase {
  std::string name;
  int64_t world;
  layout::MeshShape shape;
  recipe::RouterOptions options;
  layout::ContextSplit split = layout::ContextSplit::kContiguous;
  int64_t sums = 0, gatherings = 0;  // calls of a rank
  bool drops = true;
};

// Of each rank's own tokens, put back where they stand in the batch.
void check_capacity(const CapacityCase& test) {
  SCOPED_TRACE(test.name);
  const Batch all = crowded_batch();
  model::LocalOps alone;
  const Tensor expected = model::within_capacity(all.choice_tk, all.weight_tk, kExpertCount, test.options,
                                                 layout::make_batch(kSequences, kRowTokens), alone)
                              .choice_tk;
  EXPECT_TRUE(!test.drops || expected.eq(-1).any().item<bool>()) << "something is dropped";
  const layout::Mesh mesh(test.world, test.shape);
  comm::run_ranks(test.world, [&](comm::Communicator& world) {
    const auto log = std::make_shared<comm::CallLog>(world.rank(), 16);
    comm::Traced traced(comm::borrowed(world), log);
    const MeshGroups groups(traced, mesh);
    MeshOps ops(groups, {.split = test.split}, {});
    const OwnRows own(groups, kSequences, kRowTokens, test.split);
    const auto calls = [&](comm::CallKind kind) { return calls_of(*log, kind); };
    const int64_t sums = calls(comm::CallKind::kAllReduce), gatherings = calls(comm::CallKind::kAllGather);
    const model::KeptChoices kept = model::within_capacity(all.choice_tk.index_select(0, own.index),
                                                           all.weight_tk.index_select(0, own.index),
                                                           kExpertCount, test.options, own.view, ops);
    EXPECT_TRUE(kept.choice_tk.equal(expected.index_select(0, own.index))) << "rank " << world.rank();
    EXPECT_EQ(calls(comm::CallKind::kAllReduce) - sums, test.sums);
    EXPECT_EQ(calls(comm::CallKind::kAllGather) - gatherings, test.gatherings);
    // Bounds that all ranks know: the same everywhere, and kept.
    const Tensor bounds = at::tensor({kept.most_rows, kept.most_tokens}, at::kLong);
    const Tensor most = bounds.clone();
    traced.all_reduce(most, comm::Reduction::kMax, {"bounds"}).wait();
    EXPECT_TRUE(most.equal(bounds));
    EXPECT_GE(kept.most_tokens, own.view.own.length);
    for (int64_t e = 0; e < kExpertCount; ++e)
      EXPECT_LE(kept.choice_tk.eq(e).sum().item<int64_t>(), kept.most_rows);
  });
}

TEST(ExpertCapacityOfRanks, IsThatOfOneProcess) {
  using enum layout::ContextSplit;
  for (const double factor : {0.5, 0.9}) {
    for (const auto dropped : {recipe::Dropped::kLeast, recipe::Dropped::kLast}) {
      const recipe::RouterOptions whole{.capacity_factor = factor, .dropped = dropped};
      const auto parts = [&](int64_t count) {
        recipe::RouterOptions options = whole;
        options.capacity_parts = count;
        return options;
      };
      recipe::RouterOptions shared = whole;
      shared.capacity_of = recipe::CapacityOf::kBatch;
      // two sequences each
      check_capacity({.name = "sequences, tp", .world = 2, .shape = {.tp = 2}, .options = whole, .sums = 0});
      check_capacity({.name = "sequences, cp·tp",
                      .world = 8,
                      .shape = {.cp = 4, .tp = 2},
                      .options = whole,
                      .split = kContiguous,
                      .sums = 1});
      check_capacity({.name = "sequences, zig-zag",
                      .world = 4,
                      .shape = {.cp = 4},
                      .options = whole,
                      .split = kZigzag,
                      .sums = 1});
      check_capacity({.name = "parts of ranks",
                      .world = 8,
                      .shape = {.cp = 4, .tp = 2},
                      .options = parts(2),
                      .split = kContiguous});
      check_capacity({.name = "parts of ranks, zig-zag",
                      .world = 4,
                      .shape = {.cp = 4},
                      .options = parts(2),
                      .split = kZigzag});
      check_capacity({.name = "parts that are cut",
                      .world = 8,
                      .shape = {.cp = 4, .tp = 2},
                      .options = parts(3),
                      .split = kContiguous,
                      .sums = 1});
      check_capacity({.name = "parts of one token",
                      .world = 4,
                      .shape = {.cp = 2, .tp = 2},
                      .options = parts(100),
                      .drops = false});
      recipe::RouterOptions lent = whole;
      lent.capacity_of = recipe::CapacityOf::kLent;
      check_capacity({.name = "lent, dp", .world = 4, .shape = {}, .options = lent, .gatherings = 1});
      check_capacity({.name = "lent, cp·tp",
                      .world = 8,
                      .shape = {.cp = 2, .tp = 2},
                      .options = lent,
                      .split = kZigzag,
                      .sums = 1,
                      .gatherings = 1});
      check_capacity({.name = "batch, dp", .world = 4, .shape = {}, .options = shared, .gatherings = 1});
      check_capacity({.name = "batch, whole sequences",
                      .world = 4,
                      .shape = {.tp = 2},
                      .options = shared,
                      .sums = 1,
                      .gatherings = 1});
      check_capacity({.name = "batch, dp·cp·tp",
                      .world = 8,
                      .shape = {.cp = 2, .tp = 2},
                      .options = shared,
                      .split = kZigzag,
                      .sums = 1,
                      .gatherings = 1});
    }
  }
}

// Factor 1: C = 2 · 24 / 6 = 8 of a sequence. A rank with half of one may have all eight; one with two
// halves, 16; one with parts of twelve tokens 4 of each.
TEST(ExpertCapacityOfRanks, MostRowsFollowFromTheLayout) {
  model::LocalOps ops;
  const auto most = [&](int64_t sequences, const layout::RowShare& share, recipe::RouterOptions options) {
    const layout::SequenceView view(layout::make_batch(sequences, kRowTokens), share);
    // Meta tensors: what is known without any choice.
    const auto meta = [&](ScalarType type) {
      return at::empty({view.own.length, kChoicesEach}, at::TensorOptions(at::kMeta).dtype(type));
    };
    options.capacity_factor = 1;
    const model::KeptChoices kept =
        model::within_capacity(meta(at::kLong), meta(at::kDouble), kExpertCount, options, view, ops);
    return std::pair(kept.most_rows, kept.most_tokens);
  };
  using Most = std::pair<int64_t, int64_t>;
  EXPECT_EQ(most(1, {}, {}), Most(8, 24));
  EXPECT_EQ(most(2, {}, {}), Most(16, 48));
  EXPECT_EQ(most(1, {.context_ranks = 2}, {}), Most(8, 12));
  EXPECT_EQ(most(1, {.context_ranks = 4}, {}), Most(6, 6)) << "no more than its tokens";
  EXPECT_EQ(most(2, {.context_ranks = 2, .tensor_ranks = 2}, {}), Most(8, 12));
  EXPECT_EQ(most(1, {.context_ranks = 2, .split = layout::ContextSplit::kContiguous}, {.capacity_parts = 2}),
            Most(4, 12));
  EXPECT_EQ(most(1, {.context_ranks = 2}, {.capacity_parts = 4}), Most(4, 12))
      << "two chunks with room for 2 each";
  EXPECT_EQ(most(2, {}, {.capacity_of = recipe::CapacityOf::kBatch}), Most(48, 48))
      << "other sequences may leave it all";
}

}  // namespace
}  // namespace longhaul::parallel
