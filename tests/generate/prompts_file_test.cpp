// Prompts from files as people have them: line ends of two systems, a byte order mark, and token ids.
#include "generate/prompts_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "support/refused.h"

namespace longhaul::generate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::refused;

class PromptsFile : public ::testing::Test {
 protected:
  std::vector<Prompt> read(const std::string& name, const std::string& text) {
    write_text_atomically(folder_ / name, text);
    return read_prompts(folder_ / name);
  }
  std::vector<std::string> texts(const std::string& name, const std::string& text) {
    std::vector<std::string> found;
    for (const Prompt& prompt : read(name, text)) found.push_back(prompt.text);
    return found;
  }
  TemporaryFolder folder_;
};

TEST_F(PromptsFile, LinesEndAsOnEitherSystem) {
  EXPECT_THAT(texts("a.txt", "one\r\ntwo \r\n\r\nthree"), ElementsAre("one", "two ", "three"));
  EXPECT_THAT(texts("a.jsonl", "\"one\"\r\n{\"prompt\": \"two\\n\"}\r\n"), ElementsAre("one", "two\n"));
}

TEST_F(PromptsFile, AByteOrderMarkIsNoText) {
  EXPECT_THAT(texts("a.txt", "\xef\xbb\xbfone\ntwo\n"), ElementsAre("one", "two"));
  EXPECT_THAT(texts("a.jsonl", "\xef\xbb\xbf\"one\"\n"), ElementsAre("one"));
  EXPECT_THAT(texts("a.txt", "one\n\xef\xbb\xbftwo\n"), ElementsAre("one", "\xef\xbb\xbftwo"))
      << "in the middle it is text";
}

TEST_F(PromptsFile, IdsAreAllThatIsRead) {
  const std::vector<Prompt> prompts = read("a.jsonl", "{\"ids\": [3, 0, 70000]}\n\n{\"prompt\": \"x\"}\n");
  ASSERT_EQ(prompts.size(), 2u);
  EXPECT_THAT(*prompts[0].ids, ElementsAre(3, 0, 70000));
  EXPECT_FALSE(prompts[1].ids);
  EXPECT_THAT(prompts[1].where, HasSubstr("a.jsonl, line 3"));
}

TEST_F(PromptsFile, BadLinesAreNamed) {
  for (const char* line : {"{\"ids\": []}", "{\"ids\": [1, -2]}", "{\"ids\": [1.5]}", "{\"ids\": \"1\"}",
                           "{\"text\": \"a\"}", "plain"})
    EXPECT_THAT(refused([&] { read("a.jsonl", std::string("\"fine\"\n") + line + "\n"); }),
                HasSubstr("a.jsonl, line 2"))
        << line;
  EXPECT_THAT(refused([&] { read("a.txt", "\n\r\n"); }), HasSubstr("no prompt"));
}

}  // namespace
}  // namespace longhaul::generate
