// Harder levels are harder: the effort of a fixed plain solver rises with the level, by Spearman's rank
// correlation, so that the rate at which it solves within any bound falls. It searches where a puzzle has a
// search, and reads where the answer is computed: then the effort is what must be read and written.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "puzzles/maker.h"
#include "puzzles/tasks.h"
#include "support/nightly.h"

namespace longhaul::puzzles {
namespace {

// equal values share the mean of their ranks
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<double> ranks;
  for (const double value : values) {
    const auto less = std::ranges::count_if(values, [&](double other) { return other < value; });
    const auto equal = std::ranges::count(values, value);
    ranks.push_back(static_cast<double>(less) + static_cast<double>(equal - 1) / 2);
  }
  return ranks;
}

double spearman(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = ranks_of(a), y = ranks_of(b);
  const double mean = static_cast<double>(a.size() - 1) / 2;
  double both = 0, of_x = 0, of_y = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    both += (x[i] - mean) * (y[i] - mean);
    of_x += (x[i] - mean) * (x[i] - mean);
    of_y += (y[i] - mean) * (y[i] - mean);
  }
  return of_x * of_y == 0 ? 0 : both / std::sqrt(of_x * of_y);
}

double effort_on(const TaskEntry& task, const MadePuzzle& made) {
  const auto characters = static_cast<double>(task.prompt(made.puzzle.given, Language::kEnglish, 0).size() +
                                              made.puzzle.solution.size());
  if (task.count_solutions == nullptr) return characters;
  SearchBudget budget{.nodes = 2'000'000};
  task.count_solutions(made.puzzle.given, 2, budget);
  return static_cast<double>(budget.used) * characters;  // each place of the search is read once
}

TEST(PuzzleLevels, RanksByHand) {
  EXPECT_EQ(ranks_of({3, 1, 3, 2}), (std::vector<double>{2.5, 0, 2.5, 1}));
  EXPECT_NEAR(spearman({1, 2, 3, 4}, {10, 20, 30, 40}), 1, 1e-12);
  EXPECT_NEAR(spearman({1, 2, 3, 4}, {4, 3, 2, 1}), -1, 1e-12);
  EXPECT_NEAR(spearman({1, 2, 3, 4, 5}, {2, 1, 4, 3, 5}), 0.8, 1e-12);  // 1 - 6 * 4 / (5 * 24)
  EXPECT_EQ(spearman({1, 2, 3}, {7, 7, 7}), 0);
}

TEST(PuzzleLevels, AskForMoreEffortOneAfterTheOther) {
  const int64_t count = longhaul::testing::takes_all() ? 100 : 4;
  for (const TaskEntry* task : tasks()) {
    std::vector<double> levels, efforts;
    for (int64_t level = 0; level <= kHardestLevel; ++level) {
      double sum = 0;
      for (int64_t index = 0; index < count; ++index)
        sum +=
            std::log(effort_on(*task, make_puzzle(*task, at_level(task->knobs, level), 31, index).value()));
      levels.push_back(static_cast<double>(level));
      efforts.push_back(sum / static_cast<double>(count));
    }
    EXPECT_GT(spearman(levels, efforts), 0.8) << task->key;
  }
}

}  // namespace
}  // namespace longhaul::puzzles
