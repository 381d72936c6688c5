// The page of the options that tasks declare is what the program has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/files/file.h"
#include "cli/register.h"
#include "recipe/write.h"
#include "support/places.h"

namespace longhaul::cli {
namespace {

using ::testing::HasSubstr;

TEST(TaskReference, TheCheckedInPageIsCurrent) {
  train::declare_options(tasks());
  const std::filesystem::path page = std::filesystem::path(source_folder()) / "docs/reference/tasks.md";
  const std::string text = recipe::task_reference_markdown();
  if (std::getenv("LONGHAUL_WRITE_REFERENCE")) write_text_atomically(page, text);
  EXPECT_EQ(read_text(page), text) << "run scripts/make-recipe-reference";
  // one of each task that has options of its own
  for (const char* option : {"chat.loss_on", "preference.loss", "reinforce.algorithm"})
    EXPECT_THAT(text, HasSubstr(std::string("| `") + option + "` |"));
  EXPECT_EQ(text.find("| `train.steps` |"), std::string::npos) << "options of every run stand elsewhere";
}

}  // namespace
}  // namespace longhaul::cli
