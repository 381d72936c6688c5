#include "base/text/text.h"

#include <gtest/gtest.h>

#include "base/process/process.h"

namespace longhaul {
namespace {

TEST(Text, CountsAreInTheRightNumber) {
  EXPECT_EQ(counted(0, "file"), "0 files");
  EXPECT_EQ(counted(1, "file"), "1 file");
  EXPECT_EQ(counted(2285, "file"), "2,285 files");
  EXPECT_EQ(counted(1, "entry", "entries"), "1 entry");
  EXPECT_EQ(counted(2, "entry", "entries"), "2 entries");
}

TEST(Text, TheNearestSpellingIsATypingErrorAway) {
  const std::vector<std::string> names = {"train", "sample", "checkpoint", "--json"};
  EXPECT_EQ(nearest_spelling("trian", names), "train");
  EXPECT_EQ(nearest_spelling("chekpoint", names), "checkpoint");
  EXPECT_EQ(nearest_spelling("--jsn", names), "--json");
  EXPECT_EQ(nearest_spelling("xyzzy", names), "");
  EXPECT_EQ(nearest_spelling(std::string(1 << 20, 't'), names), "");
  EXPECT_EQ(spelling_difference("", ""), 0);
  EXPECT_EQ(spelling_difference("abcd", "abdc"), 0.25);  // one swap
  EXPECT_EQ(spelling_difference("abcd", ""), 1);
}

TEST(Text, QuotedWordsComeThroughAShellAsTheyAre) {
  for (const std::string word : {"", "plain.txt", "two words", "it's", "a\"b", "$HOME", "`date`", "*", "~",
                                 "a;b|c&d", "new\nline", "\\", "#", "!x", "{a,b}", "\xff\xc3\xa4"}) {
    const ProcessResult said = run_process({"sh", "-c", "printf '%s|' " + shell_quoted(word)});
    EXPECT_EQ(said.output, word + "|") << shell_quoted(word);
    EXPECT_EQ(said.errors, "");
  }
  EXPECT_EQ(shell_quoted("runs/a-1_b.c"), "runs/a-1_b.c");  // and no more quotes than are needed
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
}

TEST(Text, ControlCharactersAndBadBytesAreShownNotObeyed) {
  EXPECT_EQ(printable("a\x1b[2J\n\t\x7f\xc3\xa4\xff"), "a\\x1b[2J\\x0a\\x09\\x7f\xc3\xa4\\xff");
  EXPECT_EQ(printable("a\r\n\tb", LineEnds::kKept), "a\\x0d\n\tb");
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");  // cut short
  EXPECT_EQ(brief("a\nb", 3), "a\\x0ab");
  EXPECT_EQ(brief("a\xc3\xa4"
                  "b",
                  2),
            "a\u2026 (4 bytes)");  // not within a character
}

TEST(Text, CommandsBeginWithTheNameTheProgramWasStartedBy) {
  EXPECT_EQ(program_command("doctor --fresh"), "longhaul doctor --fresh");
  set_program_name("/my tools/longhaul");
  EXPECT_EQ(program_command("doctor"), "'/my tools/longhaul' doctor");
  set_program_name("./longhaul");
  EXPECT_EQ(program_command("doctor"), "./longhaul doctor");
  set_program_name("longhaul");
}

TEST(Text, PiecesBetweenSeparatorsAreOneMoreThanTheseAre) {
  const auto pieces = [](std::string_view text) {
    const std::vector<std::string_view> views = split(text, ',');
    return std::vector<std::string>(views.begin(), views.end());
  };
  EXPECT_EQ(pieces("a,bc,d"), (std::vector<std::string>{"a", "bc", "d"}));
  EXPECT_EQ(pieces(",a,,"), (std::vector<std::string>{"", "a", "", ""}));
  EXPECT_EQ(pieces(""), std::vector<std::string>{""});
  EXPECT_EQ(split("a;b,c", ';').at(1), "b,c");
}

TEST(Text, BlanksAtTheEndsAreTrimmed) {
  EXPECT_EQ(trimmed(" \t a b\r\n"), "a b");
  EXPECT_EQ(trimmed("a"), "a");
  EXPECT_EQ(trimmed(" \n "), "");
  EXPECT_EQ(trimmed(""), "");
}

}  // namespace
}  // namespace longhaul
