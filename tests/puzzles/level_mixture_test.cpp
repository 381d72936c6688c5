// Mixtures of levels: known values by hand, files, and a pretended model that learns from puzzles that it
// solves sometimes.
#include "puzzles/level_mixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/files/temporary_folder.h"
#include "base/random.h"
#include "puzzles/support.h"

namespace longhaul::puzzles {
namespace {

using ::testing::HasSubstr;

TEST(LevelMixtures, WeighLevelsByTheVarianceOfTheirReward) {
  LevelMixture mixture(2);
  EXPECT_EQ(mixture.hardest_open("sudoku"), 2);
  for (size_t level = 0; level < 11; ++level)
    EXPECT_DOUBLE_EQ(mixture.weights("sudoku")[level], level <= 2 ? 1.0 / 3 : 0);
  mixture.add("sudoku", 0, {8, 8});
  mixture.add("sudoku", 1, {6, 3});
  mixture.add("sudoku", 2, {8, 0});
  // (accepted + 1) / (answers + 2): 9/10, 4/8, 1/10; p (1 − p): 0.09, 0.25, 0.09.
  EXPECT_DOUBLE_EQ(mixture.pass_rate("sudoku", 0), 0.9);
  EXPECT_NEAR(mixture.weights("sudoku")[0], 0.09 / 0.43, 1e-12);
  EXPECT_NEAR(mixture.weights("sudoku")[1], 0.25 / 0.43, 1e-12);
  EXPECT_NEAR(mixture.weights("sudoku")[2], 0.09 / 0.43, 1e-12);
  // 100 × (0.2093, 0.5814, 0.2093) = 20.93, 58.14, 20.93: the two that are missing go to the largest rests.
  EXPECT_THAT(mixture.counts("sudoku", 100), ::testing::ElementsAre(21, 58, 21, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(mixture.hardest_open("kukurasu"), 2);  // another task has not been met
}

TEST(LevelMixtures, OpenTheNextLevelWhenOneIsMastered) {
  LevelMixture mixture(0);
  mixture.add("sudoku", 0, {15, 15});
  EXPECT_EQ(mixture.hardest_open("sudoku"), 0);  // too few to believe it
  mixture.add("sudoku", 0, {16, 8});
  EXPECT_EQ(mixture.hardest_open("sudoku"), 1);  // 23 of 31, a little less with the loss of the older ones
  mixture.add("sudoku", 1, {40, 27});
  EXPECT_EQ(mixture.hardest_open("sudoku"), 1);  // 0.675
  mixture.add("sudoku", 10, {1000, 1000});
  EXPECT_EQ(mixture.hardest_open("sudoku"), 1);  // there is no level above the hardest
}

TEST(LevelMixtures, ForgetHalfAfterSoManyAnswers) {
  LevelMixture mixture(0);
  mixture.add("sudoku", 0, {64, 0});
  mixture.add("sudoku", 0, {128, 128});
  // 64 answers count 32: (128 + 1) / (160 + 2).
  EXPECT_DOUBLE_EQ(mixture.pass_rate("sudoku", 0), 129.0 / 162);
}

TEST(LevelMixtures, ComeBackFromFilesAndBadOnesAreRefused) {
  TemporaryFolder folder;
  LevelMixture mixture(3);
  mixture.add("sudoku", 0, {7, 3});
  mixture.add("kukurasu", 10, {200, 33});
  mixture.add("kukurasu", 10, {11, 5});
  mixture.write(folder / "m.json");
  EXPECT_EQ(LevelMixture::read(folder / "m.json").json(), mixture.json());
  const auto refusal = [](const char* text) {
    const Error error = error_of([&] { LevelMixture::from_json(nlohmann::json::parse(text), "m.json"); });
    EXPECT_EQ(error.code(), ExitCode::kData);
    return std::string(error.what());
  };
  EXPECT_THAT(refusal("{}"), HasSubstr("start_level"));
  EXPECT_THAT(refusal(R"({"start_level": 11, "tasks": {}})"), HasSubstr("start_level"));
  EXPECT_THAT(refusal(R"({"start_level": 1, "tasks": {"sudoku": [1]}})"), HasSubstr("11 levels"));
  nlohmann::json wrong = mixture.json();
  wrong["tasks"]["sudoku"][0]["accepted"] = 8;
  EXPECT_THAT(refusal(wrong.dump().c_str()), HasSubstr("accepted"));
}

// A model whose chance at a level falls with its distance from the model's skill, and whose skill grows with
// each group of answers that are not all alike.
struct PretendedModel {
  double skill = 0.5;
  uint64_t drawn = 0;
  int64_t groups = 0, mixed = 0;
  RandomStream stream{9, "level_mixture_test"};

  int64_t answer(int64_t level) {
    const double chance = 1 / (1 + std::exp(2 * (static_cast<double>(level) - skill)));
    int64_t right = 0;
    for (int i = 0; i < 8; ++i) right += stream.uniform(drawn++) < chance ? 1 : 0;
    ++groups;
    if (right > 0 && right < 8) ++mixed, skill += 0.004;
    return right;
  }
};

TEST(LevelMixtures, KeepAModelAmongPuzzlesThatItSolvesSometimes) {
  PretendedModel adapted, fixed;
  LevelMixture mixture(0);
  for (int step = 0; step < 120; ++step) {
    const std::vector<int64_t> counts = mixture.counts("sudoku", 33);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), 33);
    for (int64_t level = 0; level <= kHardestLevel; ++level) {
      for (int64_t i = 0; i < counts[static_cast<size_t>(level)]; ++i) {
        mixture.add("sudoku", level, {8, static_cast<double>(adapted.answer(level))});
      }
      for (int i = 0; i < 3; ++i) fixed.answer(level);
    }
  }
  EXPECT_EQ(adapted.groups, fixed.groups);
  const double share = static_cast<double>(adapted.mixed) / static_cast<double>(adapted.groups);
  EXPECT_GT(share, 0.6);
  EXPECT_LT(static_cast<double>(fixed.mixed) / static_cast<double>(fixed.groups), 0.45);
  EXPECT_GT(adapted.skill, fixed.skill + 2);
  EXPECT_GE(mixture.hardest_open("sudoku"), 8);
}

}  // namespace
}  // namespace longhaul::puzzles
