#include "base/files/file_beneath.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/files/file.h"
#include "base/files/temporary_folder.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;

template <class Call>
ErrorFields fields_beneath(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.fields();
  }
  ADD_FAILURE() << "no error was thrown";
  return {};
}

// What others put into a folder does not lead out of it.
TEST(FileBeneath, FollowsNoLinkBelowTheRoot) {
  const TemporaryFolder folder, elsewhere;
  write_text_atomically(elsewhere / "secret", "of somebody else");
  fs::create_directories(folder / "run" / "logs");
  write_text_atomically(folder / "run" / "logs" / "a.log", "own");
  fs::create_symlink(elsewhere / "secret", folder / "run" / "report.html");
  fs::create_symlink("a.log", folder / "run" / "logs" / "b.log");
  fs::create_symlink(elsewhere.path(), folder / "run" / "trace");
  fs::create_symlink(folder / "run", folder / "typed");
  const fs::path run = folder / "run";
  EXPECT_EQ(read_text_beneath(run, "logs/a.log"), "own");
  EXPECT_EQ(read_text_beneath(folder / "typed", "logs/a.log"), "own") << "the root is what somebody typed";
  for (const char* below : {"report.html", "logs/b.log", "trace/secret"}) {
    EXPECT_EQ(fields_beneath([&] { read_text_beneath(run, below); }).code, ExitCode::kData) << below;
  }
  EXPECT_EQ(fields_beneath([&] { read_text_beneath(run, "report.html"); }).found, "a link");
  EXPECT_EQ(fields_beneath([&] { read_text_beneath(run, "none"); }).code, ExitCode::kData);
  EXPECT_EQ(fields_beneath([&] { read_text_beneath(run, "logs"); }).expected, "a regular file");
  EXPECT_EQ(fields_beneath([&] { read_text_beneath(run, "logs/a.log", ExitCode::kUsage, 2); }).code,
            ExitCode::kUsage);
  ASSERT_EQ(::mkfifo((run / "logs" / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(fields_beneath([&] { read_text_beneath(run, "logs/pipe"); }).expected, "a regular file");
  EXPECT_EQ(names_beneath(run, "logs"), std::vector<std::string>{"a.log"});
  EXPECT_TRUE(names_beneath(run, "trace").empty()) << "a folder that is a link";
  EXPECT_TRUE(names_beneath(run, "none").empty());
}

}  // namespace
}  // namespace longhaul
