// Survo: solutions are counted by trying all orders of the numbers, equal ones counting once.
#include "puzzles/survo/survo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "puzzles/maker.h"
#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles::survo {
namespace {

TEST(PuzzleSurvo, IsCountedAsByTryingAll) {
  int64_t several = 0;
  for (uint64_t i = 0; i < 240; ++i) {
    Draw draw({.task = "matrices", .index = i});
    NumberGrid matrix(4, 4);
    for (int64_t r = 0; r < 3; ++r) {
      for (int64_t c = 0; c < 3; ++c) {
        const int64_t number = draw.between(1, 4);
        matrix.at(r, c) = number;
        matrix.at(r, 3) += number, matrix.at(3, c) += number, matrix.at(3, 3) += number;
      }
    }
    std::vector<int64_t> places = {0, 1, 2, 4, 5, 6, 8, 9, 10}, numbers;
    draw.shuffle(places);
    places.resize(6);
    for (const int64_t place : places)
      numbers.push_back(std::exchange(matrix.cells[static_cast<size_t>(place)], 0));
    std::ranges::sort(numbers);
    const nlohmann::json given = {
        {"original_matrix", grid_json(matrix)}, {"candidate_numbers", numbers}, {"n", 4}};
    int64_t plain = 0;
    do {
      for (size_t k = 0; k < places.size(); ++k) matrix.cells[static_cast<size_t>(places[k])] = numbers[k];
      plain += plain_survo(given, grid_payload(matrix)) ? 1 : 0;
    } while (std::ranges::next_permutation(numbers).found);
    SearchBudget budget;
    EXPECT_EQ(kTask.count_solutions(given, 1000, budget).found, plain) << given.dump();
    several += plain > 1 ? 1 : 0;
  }
  EXPECT_GT(several, 10);
}

nlohmann::json survo_by_hand() {
  return {{"original_matrix", {{0, 5, 7}, {3, 0, 9}, {5, 11, 16}}}, {"candidate_numbers", {6, 2}}, {"n", 3}};
}

TEST(PuzzleSurvo, AnswersByHand) {
  const nlohmann::json given = survo_by_hand();
  EXPECT_TRUE(kTask.verify(given, "[[2, 5, 7], [3, 6, 9], [5, 11, 16]]").accepted());
  EXPECT_EQ(kTask.verify(given, "[[6, 5, 7], [3, 2, 9], [5, 11, 16]]").code, VerdictCode::kRuleBroken);
  EXPECT_EQ(kTask.verify(given, "[[2, 5, 7], [3, 6, 9], [5, 11, 17]]").code, VerdictCode::kGivenChanged);
  EXPECT_EQ(kTask.verify(given, "[[2, 5], [3, 6]]").code, VerdictCode::kShape);
  // The sums are right with numbers that are no candidates.
  const nlohmann::json open = {{"original_matrix", {{0, 0, 7}, {0, 0, 9}, {5, 11, 16}}},
                               {"candidate_numbers", {2, 3, 5, 6}},
                               {"n", 3}};
  EXPECT_TRUE(kTask.verify(open, "[[2, 5, 7], [3, 6, 9], [5, 11, 16]]").accepted());
  EXPECT_EQ(kTask.verify(open, "[[1, 6, 7], [4, 5, 9], [5, 11, 16]]").code, VerdictCode::kRuleBroken);
}

TEST(PuzzleSurvo, SumsThatAreGivenWrongHaveNoSolution) {
  nlohmann::json given = survo_by_hand();
  given["original_matrix"][2][2] = 17;
  EXPECT_FALSE(kTask.verify(given, "[[2, 5, 7], [3, 6, 9], [5, 11, 17]]").accepted());
  SearchBudget budget;
  EXPECT_EQ(kTask.count_solutions(given, 10, budget).found, 0);
}

TEST(PuzzleSurvo, RowsAndColumnsMayChangePlaces) {
  const nlohmann::json given = survo_by_hand(),
                       rows = {{"original_matrix", {{3, 0, 9}, {0, 5, 7}, {5, 11, 16}}},
                               {"candidate_numbers", {2, 6}},
                               {"n", 3}},
                       sides = {{"original_matrix", {{0, 3, 5}, {5, 0, 11}, {7, 9, 16}}},
                                {"candidate_numbers", {2, 6}},
                                {"n", 3}},
                       other = {{"original_matrix", {{2, 5, 7}, {0, 0, 9}, {5, 11, 16}}},
                                {"candidate_numbers", {3, 6}},
                                {"n", 3}};
  EXPECT_EQ(kTask.canonical(given), kTask.canonical(rows));
  EXPECT_EQ(kTask.canonical(given), kTask.canonical(sides));
  EXPECT_NE(kTask.canonical(given), kTask.canonical(other));
}

TEST(PuzzleSurvo, GivensAreChecked) {
  nlohmann::json given = survo_by_hand();
  given["original_matrix"][0][2] = 0;
  EXPECT_THROW(kTask.verify(given, "1"), Error);
  given = survo_by_hand();
  given["candidate_numbers"] = {6};
  EXPECT_THROW(kTask.verify(given, "1"), Error);
}

}  // namespace
}  // namespace longhaul::puzzles::survo
