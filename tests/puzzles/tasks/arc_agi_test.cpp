// ARC: every rule on grids whose results were written by hand; puzzles that more than one rule explains; and
// ARC's own files.
#include "puzzles/arc_agi/arc_agi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "base/error.h"
#include "puzzles/arc_agi/rules.h"
#include "puzzles/maker.h"

namespace longhaul::puzzles::arc_agi {
namespace {

using ::testing::HasSubstr;

NumberGrid grid_of(const std::string& rows) {  // "120 003": rows between blanks
  std::istringstream words(rows);
  std::vector<std::string> all;
  for (std::string word; words >> word;) all.push_back(word);
  NumberGrid grid(static_cast<int64_t>(all.size()), static_cast<int64_t>(all[0].size()));
  for (size_t cell = 0; cell < grid.cells.size(); ++cell)
    grid.cells[cell] = all[cell / all[0].size()][cell % all[0].size()] - '0';
  return grid;
}

const Rule& rule_named(std::string_view name) {
  const auto found = std::ranges::find(rules(), name, &Rule::name);
  if (found == rules().end()) throw std::out_of_range(std::string(name));
  return *found;
}

TEST(ArcAgi, RulesByHand) {
  const struct {
    const char *rule, *before, *after;
  } kKnown[] = {{"mirror left right", "120 003", "021 300"},
                {"mirror top bottom", "120 003", "003 120"},
                {"half turn", "120 003", "300 021"},
                {"transpose", "120 003", "10 20 03"},
                {"quarter turn right", "120 003", "01 02 30"},
                {"quarter turn left", "120 003", "03 20 10"},
                {"other transpose", "120 003", "30 02 01"},
                {"gravity down", "102 300 000", "000 100 302"},
                {"gravity up", "000 300 102", "302 100 000"},
                {"gravity right", "102 300", "012 003"},
                {"gravity left", "012 003", "120 300"},
                {"shift right", "120 003", "012 000"},
                {"shift down", "120 003", "000 120"},
                {"shift left", "120 003", "200 030"},
                {"shift up", "120 003", "003 000"},
                {"rays right", "0100 2003", "0111 2223"},
                {"rays down", "010 000 200", "010 010 210"},
                {"rays left", "0100 2003", "1100 2333"},
                {"rays up", "010 000 200", "210 200 200"},
                {"diagonal rays", "0000 0100 0000", "1010 0100 1010"},
                {"fill inside 4", "1110 1010 1110 0000", "1110 1410 1110 0000"},
                {"outline 3", "0000 0010 0000 0000", "0333 0313 0333 0000"},
                {"recolour 1 5", "120 013", "520 053"},
                {"most frequent colour", "120 113", "100 110"},
                {"crop to largest object", "1002 1000 1000", "1 1 1"},
                {"crop to smallest object", "1002 1000 1000", "2"},
                {"keep largest object", "1002 1000", "1000 1000"},
                {"keep smallest object", "1002 1000", "0002 0000"},
                {"keep objects at the border", "1000 0020 0000", "1000 0000 0000"},
                {"remove objects at the border", "1000 0020 0000", "0000 0020 0000"},
                {"remove single cells", "1002 0302 0000", "0002 0002 0000"},
                {"count objects", "1002 0302 0000", "111"},
                {"crop to content", "0000 0120 0030", "12 03"},
                {"scale 2", "12 30", "1122 1122 3300 3300"},
                {"tile 2", "12 30", "1212 3030 1212 3030"},
                {"complete left right", "100 023", "101 323"},
                {"complete top bottom", "100 023", "123 123"},
                {"panels and", "10520 11501", "10 01"},
                {"panels or", "10520 11501", "10 11"},
                {"panels xor", "10520 11501", "00 10"},
                {"join points", "1001 0020 1000", "1111 1020 1000"},
                {"fill between walls", "1110 1010 1112 0020 0000", "1110 1110 1112 0020 0000"},
                {"mosaic", "1212 1002 1202", "1212 1212 1212"},
                {"crop to odd object", "1003 1000 0220 1002", "3"},
                {"columns by height", "102 112 132", "012 112 312"}};
  std::set<std::string> proved;
  for (const auto& known : kKnown) {
    EXPECT_EQ(rule_named(known.rule).apply(grid_of(known.before)), grid_of(known.after)) << known.rule;
    proved.insert(std::string(known.rule).substr(0, std::string(known.rule).find_first_of("0123456789")));
  }
  EXPECT_EQ(rule_named("scale 3").apply(grid_of("1")), grid_of("111 111 111"));
  EXPECT_EQ(rule_named("tile 3").apply(grid_of("1")), grid_of("111 111 111"));
  for (const Rule& rule : rules())
    EXPECT_TRUE(proved.contains(rule.name.substr(0, rule.name.find_first_of("0123456789")))) << rule.name;
}

TEST(ArcAgi, RulesSayNothingWhereTheyCannot) {
  EXPECT_FALSE(rule_named("crop to largest object").apply(grid_of("102")));  // two of one size
  EXPECT_FALSE(rule_named("most frequent colour").apply(grid_of("102")));
  EXPECT_FALSE(rule_named("panels or").apply(grid_of("10520 11401")));  // no wall
  EXPECT_FALSE(rule_named("panels or").apply(grid_of("1020 1101")));    // no middle
  EXPECT_FALSE(rule_named("count objects").apply(grid_of("00 00")));
  EXPECT_FALSE(rule_named("crop to content").apply(grid_of("00 00")));
  EXPECT_FALSE(rule_named("tile 3").apply(NumberGrid(11, 2, 1)));
  EXPECT_FALSE(rule_named("diagonal rays").apply(grid_of("000 102")));  // two colours meet
  EXPECT_TRUE(rule_named("diagonal rays").apply(grid_of("000 101")));
  EXPECT_FALSE(rule_named("join points").apply(grid_of("010 202 010")));  // two lines cross
  EXPECT_FALSE(rule_named("fill between walls").apply(grid_of("111 102 111")));
  EXPECT_FALSE(rule_named("mosaic").apply(grid_of("1213 1002 1202")));
  EXPECT_FALSE(rule_named("crop to odd object").apply(grid_of("1003 1000 0220")));  // two of them
  EXPECT_FALSE(rule_named("crop to odd object").apply(grid_of("1000 0120 1000")));  // of two colours
}

TEST(ArcAgi, DemonstrationsThatLeaveADoubtAreNotEnough) {
  // A symmetric input: mirror left right, or half turn? The test tells them apart.
  const NumberGrid input = grid_of("10 10"), output = grid_of("01 01"), test = grid_of("12 30"),
                   mirrored = grid_of("21 03");
  const Demonstration one{&input, &output};
  EXPECT_FALSE(agree_on(std::span(&one, 1), test, mirrored, 1));
  const NumberGrid second = grid_of("12 34"), turned = grid_of("21 43");
  const Demonstration both[] = {one, {&second, &turned}};
  EXPECT_TRUE(agree_on(both, test, mirrored, 1));
  EXPECT_FALSE(agree_on(both, test, grid_of("03 21"), 1));
  // With two rules: what is mirrored may fall down after it, which only the test shows.
  EXPECT_FALSE(agree_on(both, test, mirrored, 2));
  const NumberGrid third = grid_of("12 00"), fourth = grid_of("21 00");
  const NumberGrid fifth = grid_of("00 12"), sixth = grid_of("00 21");
  const Demonstration all[] = {both[0], both[1], {&third, &fourth}, {&fifth, &sixth}};
  EXPECT_TRUE(agree_on(all, grid_of("12 34"), turned, 2));
}

TEST(ArcAgi, AnswersAreJudgedCellByCell) {
  const nlohmann::json given = {{"train", {{{"input", {{1, 0}}}, {"output", {{0, 1}}}}}},
                                {"test", {{{"input", {{2, 0}}}, {"output", {{0, 2}}}}}}};
  const auto code = [&](const char* answer) { return kTask.verify(given, answer).code; };
  EXPECT_EQ(code("[[0, 2]]"), VerdictCode::kAccepted);
  EXPECT_EQ(code("[\n [0,\n 2]\n]"), VerdictCode::kAccepted);
  EXPECT_EQ(code("[[2, 0]]"), VerdictCode::kRuleBroken);
  EXPECT_EQ(code("[[0], [2]]"), VerdictCode::kShape);
  EXPECT_EQ(code("[[0, 2], [0, 2]]"), VerdictCode::kShape);
  EXPECT_EQ(code("[[0, two]]"), VerdictCode::kUnreadable);
  EXPECT_EQ(code("[[0, 1+1]]"), VerdictCode::kUnreadable);
}

TEST(ArcAgi, PublicFilesAreRead) {
  const std::string file =
      R"({"train": [{"input": [[1, 0]], "output": [[0, 1]]}, {"input": [[3, 3, 0]], "output": [[0, 3, 3]]}],
                               "test": [{"input": [[2, 0]], "output": [[0, 2]]}, {"input": [[0, 4]], "output": [[4, 0]]}]})";
  const std::vector<Puzzle> puzzles = read_public_file(file, "ours.json");
  ASSERT_EQ(puzzles.size(), 2u);
  EXPECT_EQ(puzzles[1].solution, "[[4, 0]]");
  EXPECT_TRUE(kTask.verify(puzzles[1].given, puzzles[1].solution).accepted());
  EXPECT_FALSE(kTask.verify(puzzles[0].given, puzzles[1].solution).accepted());
  EXPECT_THAT(kTask.prompt(puzzles[1].given, Language::kEnglish, 0),
              HasSubstr("Output: [[0, 3, 3]]\nTest\nInput: [[0, 4]]"));
  for (const char* bad :
       {"{}", "[]", "x", R"({"train": [], "test": []})",
        R"({"train": [{"input": [[1]], "output": [[1]]}], "test": [{"input": [[2]]}]})",
        R"({"train": [{"input": [[1]], "output": [[10]]}], "test": [{"input": [[2]], "output": [[2]]}]})"}) {
    try {
      read_public_file(bad, "ours.json");
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kData);
      EXPECT_THAT(error.what(), HasSubstr("ours.json"));
    }
  }
}

// By what does not change: sizes (but for a quarter turn), how often each colour comes but for its name, and
// the answer of the test.
TEST(ArcAgi, VariationsAreOfTheSameRule) {
  const std::vector<Puzzle> puzzles = read_public_file(
      R"({"train": [{"input": [[0, 1, 2]], "output": [[2, 1, 0]]}, {"input": [[3, 0, 0], [0, 4, 0]], "output": [[0, 0, 3], [0, 4, 0]]}],
          "test": [{"input": [[5, 6, 0]], "output": [[0, 6, 5]]}]})",
      "ours.json");
  std::set<std::string> seen;
  for (uint64_t i = 0; i < 60; ++i) {
    Draw draw({.task = "arc_agi", .index = i});
    const Puzzle other = varied(puzzles[0], draw);
    EXPECT_TRUE(kTask.verify(other.given, other.solution).accepted());
    const Demonstrated now = read_given(other.given);
    std::vector<Pair> pairs = now.train;
    pairs.push_back(now.test);
    ASSERT_EQ(pairs.size(), 3u);
    std::multiset<size_t> coloured;
    for (const Pair& pair : pairs) {
      // Mirrored left and right before, so mirrored along the longer side now.
      const NumberGrid mirrored =
          *rule_named(pair.input.columns == 3 ? "mirror left right" : "mirror top bottom").apply(pair.input);
      EXPECT_EQ(mirrored, pair.output);
      coloured.insert(pair.input.cells.size() - static_cast<size_t>(std::ranges::count(pair.input.cells, 0)));
    }
    EXPECT_EQ(coloured, (std::multiset<size_t>{2, 2, 2}));
    seen.insert(other.given.dump());
  }
  EXPECT_GT(seen.size(), 50u);
}

TEST(ArcAgi, IsOnePuzzleInOtherColours) {
  const auto form = [](int colour) {
    return kTask.canonical({{"train", {{{"input", {{colour, 0}}}, {"output", {{0, colour}}}}}},
                            {"test", {{{"input", {{colour, colour}}}, {"output", {{colour, colour}}}}}}});
  };
  EXPECT_EQ(form(3), form(7));
  EXPECT_NE(form(3), form(0));
}

}  // namespace
}  // namespace longhaul::puzzles::arc_agi
