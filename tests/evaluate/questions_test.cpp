// Questions that are made up: a reader who knows the rules finds every answer in the prompt, a text of random
// letters has none.
#include "evaluate/questions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include <map>
#include <regex>

#include "base/error.h"
#include "data/support.h"
#include "evaluate/grid.h"
#include "evaluate/known_answers.h"

namespace longhaul::evaluate {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

const data::Tokenizer& bytes() {
  static const data::Tokenizer tokenizer = data::Tokenizer::bytes();
  return tokenizer;
}

std::vector<std::string> all_matches(const std::string& text, const std::string& pattern, size_t group = 1) {
  std::vector<std::string> found;
  const std::regex regex(pattern);
  for (auto it = std::sregex_iterator(text.begin(), text.end(), regex); it != std::sregex_iterator(); ++it)
    found.push_back((*it)[group]);
  return found;
}

// By other means than those that made the question: regular expressions over the text.
std::string read_needles(const std::string& prompt) {
  const std::string question = prompt.substr(prompt.rfind("\nQuestion:"));
  std::string said;
  const std::regex needle("special magic number for ([a-z-]+) is ([0-9]{7})\\.");
  for (auto it = std::sregex_iterator(prompt.begin(), prompt.end(), needle); it != std::sregex_iterator();
       ++it) {
    if (question.find((*it)[1].str()) != std::string::npos) said += " " + (*it)[2].str();
  }
  return said;
}

std::string read_rounds(const std::string& prompt) {
  const std::string topic = all_matches(prompt, "did you make up for ([a-z-]+)\\?").back();
  return all_matches(prompt, "Make up three words for " + topic + "\\.\nAssistant: ([^\n]+)").front();
}

std::string read_variables(const std::string& prompt) {
  const std::string value = all_matches(prompt, "have the value ([0-9]+)").front();
  std::map<std::string, std::string> holds;
  std::string said;
  const std::regex assignment("VAR ([A-Z]{5}) = (VAR )?([A-Z0-9]+)\\.");
  for (auto it = std::sregex_iterator(prompt.begin(), prompt.end(), assignment); it != std::sregex_iterator();
       ++it) {
    const std::string right = (*it)[3];
    holds[(*it)[1]] = holds.contains(right) ? holds[right] : right;
    if (holds[(*it)[1]] == value) said += " " + (*it)[1].str();
  }
  return said;
}

std::string most_frequent(const std::vector<std::string>& words, size_t count) {
  std::map<std::string, int> times;
  for (const auto& word : words) ++times[word];
  std::vector<std::pair<int, std::string>> sorted;
  for (const auto& [word, n] : times) sorted.emplace_back(-n, word);
  std::sort(sorted.begin(), sorted.end());
  EXPECT_LT(sorted[count - 1].first, sorted[count].first) << "no clear answer";
  std::string said;
  for (size_t i = 0; i < count; ++i) said += " " + sorted[i].second;
  return said;
}

std::string read(const std::string& prompt) {
  if (prompt.starts_with("User:")) return read_rounds(prompt);
  if (prompt.starts_with("Follow")) return read_variables(prompt);
  if (prompt.starts_with("Some words"))
    return most_frequent(all_matches(prompt, "[0-9]+\\. ([a-z]+-[a-z]+) "), 10);
  if (prompt.starts_with("Count"))
    return most_frequent(
        all_matches(prompt.substr(50, prompt.find("\nQuestion") - 50), "\\b([a-z]{6})(?= |$)"), 3);
  return read_needles(prompt);
}

TEST(Questions, HaveAnswersThatAReaderFinds) {
  Reader reader(read);
  const GridRequest request{.lengths = {900, 1700}, .samples = 4, .seed = 5, .haystack = {}};
  for (const std::string& kind : needle_kinds()) {
    const Grid grid = needle_grid(reader, bytes(), request, kind, {0, 0.5, 1});
    EXPECT_EQ(grid.mean(), 1) << kind;
    EXPECT_EQ(grid.rows, (std::vector<std::string>{"0 %", "50 %", "100 %"}));
    EXPECT_EQ(grid.columns, (std::vector<std::string>{"900", "1,700"}));
  }
  const Grid ruler = ruler_grid(
      reader, bytes(), {.lengths = {1900, 9000}, .samples = 2, .seed = 5, .haystack = {}}, ruler_kinds());
  for (size_t r = 0; r < ruler.rows.size(); ++r) {
    for (const double value : ruler.values[r]) EXPECT_EQ(value, 1) << ruler.rows[r];
  }
}

TEST(Questions, CannotBeGuessed) {
  Guess letters('a', 'z' + 1);
  const GridRequest request{.lengths = {1900}, .samples = 4, .seed = 0, .haystack = {}};
  EXPECT_EQ(ruler_grid(letters, bytes(), request, ruler_kinds()).mean(), 0);
  EXPECT_EQ(needle_grid(letters, bytes(), request, "rounds", {0.5}).mean(), 0);
}

TEST(Questions, AreAsLongAsTheyMayBe) {
  for (const auto& kinds : {needle_kinds(), ruler_kinds()}) {
    for (const std::string& kind : kinds) {
      const Question question = make_question({.kind = kind, .tokens = 3000, .depth = 0.5}, bytes());
      EXPECT_LE(question.prompt.size(), 3000u) << kind;  // a byte is a token
      EXPECT_GT(question.prompt.size(), 2850u) << kind;
    }
  }
}

TEST(Questions, NeedlesLieWhereTheyShould) {
  for (const double depth : {0.0, 0.25, 1.0}) {
    const Question question = make_question({.kind = "single", .tokens = 8000, .depth = depth}, bytes());
    const auto at = static_cast<double>(question.prompt.find(question.answers.front()));
    EXPECT_NEAR(at / 8000, depth, 0.04) << depth;
    EXPECT_EQ(question.prompt.find(question.answers.front()), question.prompt.rfind(question.answers.front()))
        << "the answer stands once";
  }
}

TEST(Questions, AreFunctionsOfSeedAndIndex) {
  const auto prompt = [](uint64_t seed, int64_t index) {
    return make_question({.kind = "keys", .tokens = 900, .depth = 0.3, .seed = seed, .index = index}, bytes())
        .prompt;
  };
  EXPECT_EQ(prompt(1, 2), prompt(1, 2));
  EXPECT_NE(prompt(1, 2), prompt(2, 2));
  EXPECT_NE(prompt(1, 2), prompt(1, 3));
}

TEST(Questions, TakeTheHayThatTheyAreGiven) {
  const std::vector<std::string> hay = sentences_of("One here. Two there!\nThree?  Four. \n\n");
  EXPECT_EQ(hay, (std::vector<std::string>{"One here.", "Two there!", "Three?", "Four."}));
  const Question question =
      make_question({.kind = "single", .tokens = 600, .depth = 0.5, .haystack = hay}, bytes());
  EXPECT_THAT(question.prompt, HasSubstr("One here. Two there!"));
  EXPECT_EQ(question.prompt.find("grass"), std::string::npos);
}

TEST(Questions, RefuseWhatIsTooShort) {
  EXPECT_EQ(data::error_of([] { make_question({.kind = "single", .tokens = 100}, bytes()); }).code(),
            ExitCode::kUsage);
}

TEST(Questions, ALengthTooShortForAKindIsLeftEmpty) {
  Guess letters('a', 'z' + 1);
  GridRequest request{.lengths = {900, 1900}, .samples = 2, .seed = 0, .haystack = {}};
  int64_t asked = 0;
  const Grid grid = ruler_grid(letters, bytes(), request, {"single", "common-words"}, [&] { ++asked; });
  EXPECT_EQ(asked, 8);
  EXPECT_EQ(grid.values[0], (std::vector<double>{0, 0}));
  EXPECT_TRUE(std::isnan(grid.values[1][0])) << "ten words six times do not fit 900 bytes";
  EXPECT_EQ(grid.values[1][1], 0);
  EXPECT_EQ(grid.mean(), 0) << "of what was asked";
  request.lengths = {60};
  EXPECT_EQ(data::error_of([&] { ruler_grid(letters, bytes(), request, ruler_kinds()); }).code(),
            ExitCode::kUsage);
}

TEST(ShareMatched, IsRulersMatchOfAll) {
  EXPECT_EQ(share_matched("The answers: ABC and 12.", {"abc", "12"}), 1);
  EXPECT_EQ(share_matched("The answers: ABC", {"abc", "12", "7", "c"}), 0.5);
  EXPECT_EQ(share_matched("", {"a"}), 0);
}

// By hand. Length 1: all found: n = 1, p = 1. Length 2: found, not, found: n = 3, p = 1/2. Weights 2^(d + l).
TEST(WeightedScore, IsTheStudys) {
  const Grid grid{.rows = {"0", "1", "2"}, .columns = {"a", "b"}, .values = {{1, 1}, {1, 0}, {1, 1}}};
  EXPECT_DOUBLE_EQ(weighted_score(grid, 2), (1 + 2 + 4 + 0.5 * (2 + 8)) / 21.0);
  EXPECT_DOUBLE_EQ(weighted_score({.rows = {"0", "1"}, .columns = {"a"}, .values = {{1}, {1}}}, 1.1), 1);
  EXPECT_DOUBLE_EQ(weighted_score({.rows = {"0", "1"}, .columns = {"a"}, .values = {{0}, {0}}}, 1.1), 0);
}

}  // namespace
}  // namespace longhaul::evaluate
