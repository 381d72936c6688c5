// The states of a recurrence over context ranks on their way beside what is computed: with folds, passes and
// links that take known times a pass over a row takes as long as by hand (watched_communicator.h).
#include <gtest/gtest.h>

#include "comm/threads/run_ranks.h"
#include "parallel/context/context_states.h"
#include "parallel/watched_communicator.h"

namespace longhaul::parallel {
namespace {

using namespace testing;  // NOLINT: the watch

constexpr int64_t kTokens = 8;
// of a piece, all heads: a fold takes as long as four states on the link
constexpr double kFold = 4, kUse = 3;

struct PassTimes {
  double forward = 0, backward = 0;
};

// Of each of two ranks. In `parts` of the heads: each with a fold, a pass and a message of a row a piece,
// folds and passes of as much less.
std::vector<PassTimes> passes(layout::ContextSplit split, int64_t parts) {
  std::vector<PassTimes> of_ranks(2);
  comm::run_ranks(2, [&](comm::Communicator& thread) {
    Watch watch;
    WatchedCommunicator watched(thread, watch);
    const layout::SequenceView view(layout::make_single(kTokens),
                                    {.context_ranks = 2, .context_rank = thread.rank(), .split = split});
    const std::vector<ContextPiece> pieces = context_pieces(view);
    const std::vector<StatePassing> all(static_cast<size_t>(parts),
                                        StatePassing(recipe::LinearContextMethod::kAllGather, watched, pieces,
                                                     {.sizes = {1, 1, 1}, .options = at::kFloat}));
    const auto pass = [&](bool backward) {
      const double begin = watch.now;
      std::vector<double> used(static_cast<size_t>(parts));
      StatePassing::run_together(
          all, backward,
          [&](size_t, const ContextPiece& piece) -> ContextFold {
            watch.now += kFold / static_cast<double>(parts);
            return {at::full({1, 1, 1}, static_cast<float>(piece.tokens.begin + 1)), at::ones({1, 1})};
          },
          [&](size_t part, const ContextPiece& piece, const Tensor& entering) {
            watch.now += kUse / static_cast<double>(parts);
            // Of one document: what all pieces before this one have written.
            double before = 0;
            for (const ContextPiece& other : pieces) {
              const bool is_before = backward ? other.tokens.begin > piece.tokens.begin
                                              : other.tokens.begin < piece.tokens.begin;
              before += is_before ? static_cast<double>(other.tokens.begin + 1) : 0;
            }
            EXPECT_EQ(entering.defined() ? entering.item<double>() : 0, before)
                << "rank " << thread.rank() << " part " << part;
            ++used[part];
          });
      for (const double count : used) EXPECT_EQ(count, split == layout::ContextSplit::kZigzag ? 2 : 1);
      return watch.now - begin;
    };
    PassTimes& own = of_ranks[static_cast<size_t>(thread.rank())];
    own.forward = pass(false);
    watch.now = 1000;  // links are idle again
    own.backward = pass(true);
  });
  return of_ranks;
}

// Zig-zag: of pieces 0 to 3 rank 0 has the outer two and rank 1 the inner two, whose states all leave: 2 rows
// of its own to send.
TEST(ContextOverlap, InHalvesStatesTravelWhileTheOtherHeadsAreFolded) {
  const auto at_once = passes(layout::ContextSplit::kZigzag, 1),
             halves = passes(layout::ContextSplit::kZigzag, 2);
  EXPECT_EQ(at_once[1].forward, 2 * kFold + 2 + 2 * kUse)
      << "both states are on the link while nothing is computed";
  EXPECT_EQ(halves[1].forward, 2 * kFold + 2 * kUse) << "all of it hidden";
  EXPECT_EQ(at_once[1].backward, 2 * kFold + 2 + 2 * kUse);
  EXPECT_EQ(halves[1].backward, 2 * kFold + 2 * kUse);
}

// The first piece of the row, backward the last one, waits for nothing: its rank computes while its own state
// travels.
TEST(ContextOverlap, PiecesThatNothingEntersDoNotWait) {
  EXPECT_EQ(passes(layout::ContextSplit::kZigzag, 1)[0].forward, kFold + 2 * kUse);
  EXPECT_EQ(passes(layout::ContextSplit::kZigzag, 1)[0].backward, kFold + 2 * kUse);
  const auto contiguous = passes(layout::ContextSplit::kContiguous, 1);
  EXPECT_EQ(contiguous[0].forward, kFold + kUse);
  EXPECT_EQ(contiguous[1].backward, kFold + kUse);
  EXPECT_EQ(contiguous[1].forward, kUse) << "nobody waits for the last piece: nothing to fold";
}

}  // namespace
}  // namespace longhaul::parallel
