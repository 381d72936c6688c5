#include "comm/diagnose_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/machine/machine.h"
#include "comm/threads/run_ranks.h"
#include "comm/wrappers/faulty.h"

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
    const std::string own(static_cast<size_t>(world.rank() * world.rank() * 1000),
                          static_cast<char>('a' + world.rank()));
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
    const auto sends = diagnose_nodes(world, report_of(world.rank(), "x"), {},
                                      {.pair_bytes = 4096, .plant = world.rank() == 3});
    EXPECT_THAT(sends.failed_nodes(), ElementsAre("n3"));
    const auto computes = diagnose_nodes(world, report_of(world.rank(), world.rank() == 1 ? "y" : "x"), {},
                                         {.pair_bytes = 4096});
    EXPECT_THAT(computes.failed_nodes(), ElementsAre("n1"));
  });
}

// A bit that is wrong once, in one turn of several, whichever: the last one is right.
TEST(MeasurePairs, AnyTurnThatIsWrongCounts) {
  for (const int64_t wrong : {0, 1, 3}) {
    run_ranks(2, [&](Communicator& world) {
      std::vector<Fault> faults;
      if (world.rank() == 1)
        faults.push_back(
            {.group = "world", .call = wrong, .kind = Fault::Kind::kCorrupt, .bit = 77, .exchange = true});
      Faulty faulty(borrowed(world), faults);
      const auto pairs = measure_pairs(faulty, {.pair_bytes = 4096});
      ASSERT_EQ(pairs.size(), 1u);
      EXPECT_FALSE(pairs[0].correct) << "turn " << wrong;
    });
  }
}

// What a rank tells the others of its pair is 100 bytes a second of rank 0, 7 of rank 1.
class TellsARate final : public Wrapper {
 public:
  explicit TellsARate(Communicator& world) : Wrapper(borrowed(world)) {}
  Work start(Call call) override {
    if (call.options.name == "pairs' results") call.input.select(2, 1).fill_(rank() == 0 ? 100 : 7);
    return inner().start(std::move(call));
  }

 private:
  std::unique_ptr<Communicator> around(std::shared_ptr<Communicator>,
                                       std::shared_ptr<const GroupPlace>) const override {
    return nullptr;
  }
};

TEST(MeasurePairs, ARateIsThatOfTheSlowerSide) {
  run_ranks(2, [](Communicator& world) {
    TellsARate told(world);
    const auto pairs = measure_pairs(told, {.pair_bytes = 4096});
    ASSERT_EQ(pairs.size(), 1u);
    EXPECT_EQ(pairs[0].bytes_per_second, 7);
  });
}

}  // namespace
}  // namespace longhaul::comm
