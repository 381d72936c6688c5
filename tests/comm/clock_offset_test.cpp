// Clocks of ranks, compared: pretended ones, whose difference is known.
#include "comm/clock_offset.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "comm/ranks.h"

namespace longhaul::comm {
namespace {

TEST(ClockOffset, OfOneMachineIsNothing) {
  on_ranks(3, [](Communicator& world) {
    const ClockOffset clock = clock_offset(world, "machine", monotonic_ns);
    EXPECT_EQ(clock.offset_ns, 0);
    EXPECT_EQ(clock.error_ns, 0);
  });
}

TEST(ClockOffset, OfOthersIsMeasured) {
  constexpr int64_t kAhead[] = {0, 0, 5'000'000'000, -70'000'000'000};
  on_ranks(4, [&](Communicator& world) {
    const int64_t ahead = kAhead[world.rank()];
    const ClockOffset clock =
        clock_offset(world, ahead == 0 ? "a" : std::to_string(ahead), [&] { return monotonic_ns() + ahead; });
    EXPECT_LE(std::abs(clock.offset_ns + ahead), clock.error_ns) << world.rank();
    EXPECT_LT(clock.error_ns, 1'000'000'000) << "a busy machine answers within two seconds";
  });
}

// Rank 1 asks sixteen times, a million apart; the answer to the fourth question alone comes soon: 100 behind
// it, which is 727 ahead of its middle.
TEST(ClockOffset, TheQuickestAnswerCounts) {
  on_ranks(2, [](Communicator& world) {
    int64_t asked = 0;
    const auto pretended = [&]() -> int64_t {
      if (world.rank() == 0) return 1'000'000 * asked++ + 777;
      const int64_t round = asked / 2, end = asked++ % 2;
      return 1'000'000 * round + end * (round == 3 ? 100 : 5'000 + round);
    };
    const ClockOffset clock = clock_offset(world, std::to_string(world.rank()), pretended);
    EXPECT_EQ(clock.offset_ns, world.rank() == 0 ? 0 : 727);
    EXPECT_EQ(clock.error_ns, world.rank() == 0 ? 0 : 50);
  });
}

}  // namespace
}  // namespace longhaul::comm
