// LongBench's measures, beside what rouge, fuzzywuzzy and Python say
// (tests/golden/make_text_scores_golden.py).
#include "evaluate/text_scores.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/files/file.h"
#include "support/places.h"

namespace longhaul::evaluate {
namespace {

TEST(TextScores, AreThoseOfThePackages) {
  const auto golden =
      nlohmann::json::parse(read_text(source_folder() + "/tests/golden/text_scores_golden.json"));
  const auto classes = golden.at("classes").get<std::vector<std::string>>();
  const std::map<std::string, double (*)(std::string_view, std::string_view)> measures = {
      {"word_f1", word_f1},     {"character_f1", character_f1},
      {"rouge_l", rouge_l},     {"rouge_l_of_characters", rouge_l_of_characters},
      {"number", number_score}, {"code", code_score}};
  std::map<std::string, int> seen;
  for (const auto& row : golden.at("cases")) {
    const auto measure = row.at("measure").get<std::string>(), said = row.at("said").get<std::string>(),
               expected = row.at("expected").get<std::string>();
    ++seen[measure];
    const double found =
        measure == "class" ? class_score(said, expected, classes) : measures.at(measure)(said, expected);
    EXPECT_NEAR(found, row.at("score").get<double>(), 1e-12)
        << measure << " of «" << said << "» beside «" << expected << "»";
  }
  for (const auto& [measure, count] : seen) EXPECT_GE(count, 8) << measure;
  EXPECT_EQ(seen.size(), 7u);
}

// A model's bytes need not be UTF-8.
TEST(TextScores, BytesThatAreNoCharactersCountAsOne) {
  EXPECT_EQ(word_f1("a\xff b", "b"), 2.0 / 3);
  EXPECT_EQ(code_score("x\xff", "x\xfe"), 1);
  EXPECT_EQ(number_score("\xff 7", "7"), 1);
}

TEST(TextScores, ANumberAfterAWord) {
  EXPECT_EQ(number_after("Paragraph x, Paragraph 12.", "Paragraph "), "12");
  EXPECT_EQ(number_after("段落3", "段落"), "3");
  EXPECT_EQ(number_after("12", "Paragraph "), "");
}

}  // namespace
}  // namespace longhaul::evaluate
