#include "base/files/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "base/files/temporary_folder.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

template <class Call>
ErrorFields fields_of_error(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.fields();
  }
  ADD_FAILURE() << "no error was thrown";
  return {};
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(File, WritesAndReads) {
  const TemporaryFolder folder;
  File file = File::open(folder / "a", File::Mode::kCreate);
  file.write("hello world");
  file.write_at(6, bytes_of("there"));
  file.sync();
  EXPECT_EQ(file.size(), 11);
  file.close();
  EXPECT_FALSE(file);
  EXPECT_EQ(read_text(folder / "a"), "hello there");

  const File reader = File::open(folder / "a", File::Mode::kRead);
  std::array<std::byte, 5> five{};
  reader.read_exactly(6, five);
  EXPECT_EQ(static_cast<char>(five[0]), 't');
  EXPECT_EQ(reader.read_some(9, five), 2u);
  EXPECT_EQ(reader.read_some(11, five), 0u);
}

TEST(File, ModesKeepOrDropWhatIsThere) {
  const TemporaryFolder folder;
  const fs::path path = folder / "a";
  File::open(path, File::Mode::kAppend).write("one");
  File::open(path, File::Mode::kAppend).write("two");
  EXPECT_EQ(read_text(path), "onetwo");
  File::open(path, File::Mode::kReadWrite).write_at(1, bytes_of("NE"));
  EXPECT_EQ(read_text(path), "oNEtwo");
  File::open(path, File::Mode::kReadWrite).truncate(2);
  EXPECT_EQ(read_text(path), "oN");
  File::open(path, File::Mode::kCreate);
  EXPECT_EQ(read_text(path), "");
  EXPECT_THROW(File::open(path, File::Mode::kAppend).write_at(0, bytes_of("x")), Error);
}

TEST(File, AppendsAtTheEndAfterATornTailIsCut) {
  const TemporaryFolder folder;
  File file = File::open(folder / "a", File::Mode::kAppend);
  file.write("line\ntor");
  file.truncate(5);
  file.write("next\n");
  EXPECT_EQ(read_text(folder / "a"), "line\nnext\n");
}

TEST(File, Moves) {
  const TemporaryFolder folder;
  File a = File::open(folder / "a", File::Mode::kCreate);
  File b = std::move(a);
  EXPECT_FALSE(a);
  b.write("b");
  a = std::move(b);
  a.write("c");
  EXPECT_EQ(read_text(a.path()), "bc");
}

TEST(FileFault, MissingHasTheCallersCode) {
  const TemporaryFolder folder;
  const auto data = fields_of_error([&] { File::open(folder / "none", File::Mode::kRead); });
  EXPECT_EQ(data.code, ExitCode::kData);
  EXPECT_EQ(data.where, (folder / "none").string());
  EXPECT_EQ(data.found, "No such file or directory");
  EXPECT_FALSE(data.hint.empty());
  EXPECT_EQ(fields_of_error([&] { read_text(folder / "none", ExitCode::kCheckpoint); }).code,
            ExitCode::kCheckpoint);
  EXPECT_EQ(fields_of_error([&] { MappedFile::open(folder / "none", ExitCode::kUsage); }).code,
            ExitCode::kUsage);
  EXPECT_EQ(fields_of_error([&] { File::open(folder / "none" / "x", File::Mode::kCreate); }).code,
            ExitCode::kDisk);
  File::open(folder / "a", File::Mode::kCreate);
  // a file is no folder
  EXPECT_EQ(fields_of_error([&] { read_text(folder / "a" / "b"); }).code, ExitCode::kData);
  EXPECT_EQ(fields_of_error([&] { read_text(folder / std::string(300, 'x')); }).code, ExitCode::kData);
}

TEST(FileFault, OtherKindsAreRefusedWithoutWaiting) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const auto mode :
       {File::Mode::kRead, File::Mode::kCreate, File::Mode::kAppend, File::Mode::kReadWrite}) {
    const ExitCode code = mode == File::Mode::kRead ? ExitCode::kCheckpoint : ExitCode::kDisk;
    const auto pipe = fields_of_error([&] { File::open(folder / "pipe", mode, ExitCode::kCheckpoint); });
    EXPECT_EQ(pipe.code, code);
    EXPECT_EQ(pipe.found, "a named pipe");
    const auto directory = fields_of_error([&] { File::open(folder.path(), mode, ExitCode::kCheckpoint); });
    EXPECT_EQ(directory.code, code);
    EXPECT_EQ(directory.found, "a folder");
    EXPECT_EQ(fields_of_error([&] { File::open("/dev/zero", mode, ExitCode::kCheckpoint); }).found,
              "a device");
  }
}

TEST(FileFault, TruncatedNamesBothSizes) {
  const TemporaryFolder folder;
  File::open(folder / "a", File::Mode::kCreate).write("0123456789");
  const File file = File::open(folder / "a", File::Mode::kRead, ExitCode::kCheckpoint);
  std::array<std::byte, 8> eight{};
  const auto fields = fields_of_error([&] { file.read_exactly(5, eight); });
  EXPECT_EQ(fields.code, ExitCode::kCheckpoint);
  EXPECT_THAT(fields.expected, HasSubstr("8 bytes from byte 5"));
  EXPECT_THAT(fields.found, HasSubstr("5 of them"));
  EXPECT_THAT(fields.found, HasSubstr("10 bytes"));
  EXPECT_EQ(fields.where, (folder / "a").string());
}

TEST(FileFault, TooLargeForReadText) {
  const TemporaryFolder folder;
  File::open(folder / "a", File::Mode::kCreate).truncate(1 << 20);
  const auto fields = fields_of_error([&] { read_text(folder / "a", ExitCode::kUsage, 1000); });
  EXPECT_EQ(fields.code, ExitCode::kUsage);
  EXPECT_THAT(fields.found, HasSubstr("1048576"));
}

// /dev/full is no regular file, so the limit of the process stands in for the disk
TEST(FileFault, FullDiskIsCode73) {
  const TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100, 100};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      File file = File::open(folder / "a", File::Mode::kCreate);
      file.write(std::string(60, 'x'));
      file.write(std::string(60, 'y'));  // 40 fit: a short write, then the error
    } catch (const Error& error) {
      const bool good = std::string(error.what()).find((folder / "a").string()) != std::string::npos;
      _exit(good ? static_cast<int>(error.code()) : 1);
    }
    _exit(2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 73);
  EXPECT_EQ(fs::file_size(folder / "a"), 100u);
}

TEST(FileFault, NoPermissionIsCode73) {
  const bool root = geteuid() == 0;  // who may do everything, so becomes nobody for a while
  if (root && seteuid(65534) != 0)
    GTEST_SKIP() << "root may do everything and cannot become another user here";
  struct BackToRoot {
    bool root;
    ~BackToRoot() {
      if (root && seteuid(0) != 0) abort();
    }
  } back{root};
  const TemporaryFolder folder;
  File::open(folder / "a", File::Mode::kCreate).write("x");
  fs::permissions(folder / "a", fs::perms::none);
  EXPECT_EQ(fields_of_error([&] { read_text(folder / "a"); }).code, ExitCode::kDisk);
  fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_EQ(fields_of_error([&] { write_text_atomically(folder / "b", "x"); }).code, ExitCode::kDisk);
  EXPECT_EQ(fields_of_error([&] { make_folders(folder / "c"); }).code, ExitCode::kDisk);
  fs::permissions(folder.path(), fs::perms::owner_all);
}

TEST(FileFault, ReadOnlyPlacesAreCode73) {  // true for root as well: /proc makes no files
  EXPECT_EQ(fields_of_error([] { File::open("/proc/longhaul-test", File::Mode::kCreate); }).code,
            ExitCode::kDisk);
  EXPECT_EQ(fields_of_error([] { make_folders("/proc/longhaul-test/a"); }).code, ExitCode::kDisk);
  EXPECT_EQ(fields_of_error([] { FileLock lock("/proc/longhaul-test"); }).code, ExitCode::kDisk);
}

TEST(AtomicWrite, ReplacesAndLeavesNothingBehind) {
  const TemporaryFolder folder;
  write_text_atomically(folder / "a", "first");
  write_text_atomically(folder / "a", "second");
  EXPECT_EQ(read_text(folder / "a"), "second");
  EXPECT_EQ(list_files(folder.path()).size(), 1u);
}

TEST(AtomicWrite, FailureKeepsTheOldFileAndRemovesTheNew) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "a" / "in the way");  // a rename over a full folder fails
  EXPECT_EQ(fields_of_error([&] { write_text_atomically(folder / "a", "text"); }).code, ExitCode::kDisk);
  EXPECT_TRUE(fs::is_directory(folder / "a" / "in the way"));
  EXPECT_TRUE(list_files(folder.path()).empty());
  EXPECT_THROW(write_text_atomically(folder / "no" / "such", "text"), Error);
}

TEST(AtomicWrite, ReadersSeeTheOldOrTheNewWhole) {
  const TemporaryFolder folder;
  const std::string a(10'000, 'a'), b(20'000, 'b');
  write_text_atomically(folder / "x", a);
  std::thread writer([&] {
    for (int i = 0; i < 20; ++i) write_text_atomically(folder / "x", i % 2 ? a : b);
  });
  for (int i = 0; i < 200; ++i) {
    const std::string text = read_text(folder / "x");
    EXPECT_TRUE(text == a || text == b) << text.size();
  }
  writer.join();
}

TEST(Folders, MakesListsAndRenames) {
  const TemporaryFolder folder;
  make_folders(folder / "b" / "c");
  make_folders(folder / "b" / "c");
  for (const char* name : {"b/z", "b/c/y", "a", "b.txt", "B"})
    File::open(folder.path() / name, File::Mode::kCreate);
  fs::create_symlink("a", folder / "link");
  fs::create_symlink("nowhere", folder / "dangling");
  const std::vector<fs::path> expected = {folder / "B",          folder / "a",
                                          folder / "b.txt",      folder.path() / "b/c/y",
                                          folder.path() / "b/z", folder / "link"};
  EXPECT_EQ(list_files(folder.path()), expected);
  rename_path(folder / "a", folder.path() / "b/c/a");
  EXPECT_FALSE(fs::exists(folder / "a"));
  EXPECT_TRUE(fs::exists(folder.path() / "b/c/a"));
  EXPECT_EQ(fields_of_error([&] { rename_path(folder / "a", folder / "q"); }).code, ExitCode::kDisk);
  EXPECT_EQ(fields_of_error([&] { list_files(folder / "none"); }).code, ExitCode::kData);
  // a file of that name
  EXPECT_EQ(fields_of_error([&] { make_folders(folder / "B"); }).code, ExitCode::kDisk);
  EXPECT_EQ(fields_of_error([&] { sync_folder(folder / "none"); }).code, ExitCode::kDisk);
}

TEST(Folders, FreeSpaceOfAFolderThatIsNotThereYet) {
  const TemporaryFolder folder;
  EXPECT_GT(free_disk_bytes(folder.path()), 0);
  EXPECT_GT(free_disk_bytes(folder / "not" / "yet"), 0);
  EXPECT_GT(free_disk_bytes("relative and missing"), 0);
}

TEST(MappedFile, GivesRangesAndNoticesThatTheFileShrank) {
  const TemporaryFolder folder;
  File file = File::open(folder / "a", File::Mode::kCreate);
  file.write(std::string(10'000, 'x') + "end");
  MappedFile mapped = MappedFile::open(folder / "a");
  ASSERT_EQ(mapped.size(), 10'003);
  const auto end = mapped.range(10'000, 3);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(end.data()), end.size()), "end");
  EXPECT_EQ(mapped.range(10'003, 0).size(), 0u);
  EXPECT_THAT(fields_of_error([&] { mapped.range(10'000, 4); }).what, HasSubstr("too short"));
  EXPECT_THAT(fields_of_error([&] { mapped.range(1, INT64_MAX); }).what, HasSubstr("too short"));

  MappedFile moved = std::move(mapped);
  file.truncate(100);
  EXPECT_EQ(moved.range(0, 100).size(), 100u);
  const auto fields = fields_of_error([&] { moved.range(9'000, 10); });
  EXPECT_THAT(fields.what, HasSubstr("shrank"));
  EXPECT_EQ(fields.code, ExitCode::kData);
  file.truncate(20'000);  // it grew: the map still ends where it did
  EXPECT_THROW(moved.range(10'003, 1), Error);
}

TEST(MappedFile, TakesAnEmptyFile) {
  const TemporaryFolder folder;
  File::open(folder / "a", File::Mode::kCreate);
  const MappedFile mapped = MappedFile::open(folder / "a");
  EXPECT_EQ(mapped.size(), 0);
  EXPECT_TRUE(mapped.range(0, 0).empty());
  EXPECT_THROW(mapped.range(0, 1), Error);
}

TEST(FileLock, RefusesASecondHolderAndNamesTheFirst) {
  const TemporaryFolder folder;
  {
    const FileLock lock(folder / "run");
    const auto fields = fields_of_error([&] { FileLock second(folder / "run"); });
    if (fs::exists("/proc/locks")) {
      EXPECT_EQ(FileLock::holder_of(folder / "run"), ::getpid());
    }
    EXPECT_EQ(fields.code, ExitCode::kUsage);
    EXPECT_EQ(fields.found, fmt::format("held by process {}", getpid()));
  }
  EXPECT_EQ(FileLock::holder_of(folder / "run"), std::nullopt);
  EXPECT_EQ(FileLock::holder_of(folder / "no such file"), std::nullopt);
  const FileLock again(folder / "run");
}

TEST(FileLock, IsFreedWhenItsProcessDies) {
  const TemporaryFolder folder;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const FileLock lock(folder / "run");
    [[maybe_unused]] const ssize_t sent = write(ready[1], "x", 1);
    pause();
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(fields_of_error([&] { FileLock lock(folder / "run"); }).found,
            fmt::format("held by process {}", child));
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  const FileLock lock(folder / "run");
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace longhaul
