// Wrong lines of a trace of brackets: by hand, and the answers that are read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "puzzles/dyck_language_reasoning_errors/dyck_language_reasoning_errors.h"

namespace longhaul::puzzles {
namespace {

using dyck_language_reasoning_errors::wrong_lines;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(DyckLanguageReasoningErrors, WrongLinesByHand) {
  EXPECT_THAT(wrong_lines("([])", {"(", "([", "(", ""}, true), IsEmpty());
  EXPECT_THAT(wrong_lines("([])", {"(", "(", "(", ""}, true), ElementsAre(4));
  EXPECT_THAT(wrong_lines("([])", {"(", "([", "([", "("}, false), ElementsAre(5, 6, 7));
  // the next line is right again
  EXPECT_THAT(wrong_lines("([])", {"(", "([", "[", ""}, true), ElementsAre(5));
  EXPECT_THAT(wrong_lines("((", {"(", "(("}, true), ElementsAre(5));
}

TEST(DyckLanguageReasoningErrors, AnswersAreSetsOfLines) {
  const TaskEntry& task = dyck_language_reasoning_errors::kTask;
  // as in public data
  const nlohmann::json given = {{"error_indices", {3, 7}}},
                       right = {{"error_indices", nlohmann::json::array()}};
  for (const char* good : {"3,7", "7, 3", "3,7,3"}) EXPECT_TRUE(task.verify(given, good).accepted()) << good;
  for (const char* bad : {"3", "3,7,9", "37", "3 7", "", "none", "3,,7", "lines 3,7"})
    EXPECT_FALSE(task.verify(given, bad).accepted()) << bad;
  for (const char* good : {"none", "None", "无", ""})
    EXPECT_TRUE(task.verify(right, good).accepted()) << good;
  for (const char* bad : {"0", "3", "no", "none at all"})
    EXPECT_FALSE(task.verify(right, bad).accepted()) << bad;
}

TEST(DyckLanguageReasoningErrors, TracesAreInTheLanguageOfThePrompt) {
  const nlohmann::json given = {{"sequence", "()"},
                                {"stacks", {"(", ""}},
                                {"says_empty", true},
                                {"error_indices", nlohmann::json::array()}};
  const auto prompt = [&](Language language) {
    return dyck_language_reasoning_errors::prompt(given, language, 0);
  };
  EXPECT_THAT(prompt(Language::kEnglish),
              testing::HasSubstr("3. ( ; stack: (\n4. ) ; stack: empty\n5. At the end the stack is empty, so "
                                 "the sequence is balanced."));
  EXPECT_THAT(prompt(Language::kChinese),
              testing::HasSubstr("3. ( ; 栈: (\n4. ) ; 栈: 空\n5. 读完后栈为空，所以序列是配对完整的。"));
}

}  // namespace
}  // namespace longhaul::puzzles
