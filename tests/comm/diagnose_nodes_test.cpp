#include "comm/diagnose_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/machine.h"
#include "comm/run_ranks.h"

namespace longhaul::comm {
namespace {

using ::testing::ElementsAre;

control::SelfCheckReport report_of(int64_t rank, const std::string& bits) {
  return {.node = "n" + std::to_string(rank),
          .boot = machine().boot,
          .model = "m",
          .results = {{.name = "product", .fingerprints = {{"bits", bits, true}}}}};
}

TEST(GatherTexts, OfAnyLength) {
  run_ranks(4, [](Communicator& world) {
    const std::string own(static_cast<size_t>(world.rank() * world.rank() * 1000), static_cast<char>('a' + world.rank()));
    const auto texts = gather_texts(world, own, "texts", std::chrono::seconds(60));
    ASSERT_EQ(texts.size(), 4u);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(texts[i], std::string(i * i * 1000, static_cast<char>('a' + i)));
    EXPECT_EQ(gather_texts(world, "", "nothing", std::chrono::seconds(60)), std::vector<std::string>(4));
  });
}

TEST(DiagnoseNodes, AllAreWell) {
  for (const int64_t size : {1, 2, 3, 5}) {
    run_ranks(size, [&](Communicator& world) {
      const auto report = diagnose_nodes(world, report_of(world.rank(), "x"), {}, {.pair_bytes = 4099 * 4});
      EXPECT_TRUE(report.passed());
      EXPECT_EQ(static_cast<int64_t>(report.nodes.size()), size);
      EXPECT_EQ(report.pairs.size(), size == 1 ? 0u : size == 2 ? 1u : size == 3 ? 3u : 6u);
      for (const auto& pair : report.pairs) EXPECT_GT(pair.bytes_per_second, 0);
    });
  }
}

TEST(DiagnoseNodes, EveryRankNamesTheSameNode) {
  run_ranks(5, [](Communicator& world) {
    const auto sends = diagnose_nodes(world, report_of(world.rank(), "x"), {}, {.pair_bytes = 4096, .plant = world.rank() == 3});
    EXPECT_THAT(sends.failed_nodes(), ElementsAre("n3"));
    const auto computes = diagnose_nodes(world, report_of(world.rank(), world.rank() == 1 ? "y" : "x"), {}, {.pair_bytes = 4096});
    EXPECT_THAT(computes.failed_nodes(), ElementsAre("n1"));
  });
}

}  // namespace
}  // namespace longhaul::comm
