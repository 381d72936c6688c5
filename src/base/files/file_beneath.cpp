#include "base/files/file_beneath.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

namespace longhaul {
namespace {

namespace fs = std::filesystem;

class Opened {
 public:
  explicit Opened(int descriptor) : descriptor_(descriptor) {}
  ~Opened() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  int get() const { return descriptor_; }
  void replace(int descriptor) {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = descriptor;
  }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

int opened_at(int folder, const fs::path& name, int flags) {
  int descriptor;
  do descriptor = ::openat(folder, name.c_str(), flags | O_CLOEXEC);
  while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

// −1 with errno; `flags` are for the last part of the way.
int open_way(const fs::path& root, const fs::path& below, int flags) {
  Opened at(opened_at(AT_FDCWD, root, O_PATH | O_DIRECTORY));
  for (auto part = below.begin(); at.get() >= 0 && part != below.end(); ++part) {
    LONGHAUL_ASSERT(*part != ".." && !part->has_root_path(), "a way that leads out: {}", below.string());
    const bool last = std::next(part) == below.end();
    at.replace(opened_at(at.get(), *part, (last ? flags : O_PATH | O_DIRECTORY) | O_NOFOLLOW));
  }
  return at.release();
}

[[noreturn]] void fail_beneath(int number, const fs::path& path, ExitCode missing) {
  const bool nowhere = number == ENOENT || number == ENOTDIR || number == ENAMETOOLONG || number == ELOOP;
  throw Error({.code = nowhere ? missing : ExitCode::kDisk,
               .what = "cannot read the file",
               .expected = number == ELOOP ? "a file of this folder itself" : "",
               .found = number == ELOOP ? "a link" : std::generic_category().message(number),
               .where = path.string()});
}

}  // namespace

FileBeneath::FileBeneath(const fs::path& root, const fs::path& below, ExitCode missing)
    // O_NONBLOCK: opening a named pipe must not wait for its other end.
    : path_(root / below), descriptor_(open_way(root, below, O_RDONLY | O_NONBLOCK)) {
  struct stat status {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) fail_beneath(errno, path_, missing);
  if (S_ISREG(status.st_mode)) return;
  ::close(descriptor_);
  throw Error({.code = missing,
               .what = "cannot open the file",
               .expected = "a regular file",
               .where = path_.string()});
}

FileBeneath::~FileBeneath() { ::close(descriptor_); }

int64_t FileBeneath::size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail_beneath(errno, path_, ExitCode::kDisk);
  return status.st_size;
}

size_t FileBeneath::read_some(int64_t offset, std::span<std::byte> into) const {
  ssize_t count;
  do count = ::pread(descriptor_, into.data(), into.size(), offset);
  while (count < 0 && errno == EINTR);
  if (count < 0) fail_beneath(errno, path_, ExitCode::kDisk);
  return static_cast<size_t>(count);
}

std::string read_text_beneath(const fs::path& root, const fs::path& below, ExitCode missing,
                              int64_t limit_bytes) {
  const FileBeneath file(root, below, missing);
  const int64_t size = file.size();
  if (size > limit_bytes) {
    throw Error({.code = missing,
                 .what = "the file is too large to be read whole",
                 .expected = fmt::format("at most {} bytes", limit_bytes),
                 .found = fmt::format("{} bytes", size),
                 .where = (root / below).string()});
  }
  std::string text(static_cast<size_t>(size), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const size_t count =
        file.read_some(static_cast<int64_t>(done), std::as_writable_bytes(std::span(text).subspan(done)));
    if (count == 0) break;  // it was cut meanwhile
    done += count;
  }
  text.resize(done);
  return text;
}

std::vector<std::string> names_beneath(const fs::path& root, const fs::path& below) {
  std::vector<std::string> names;
  const int descriptor = open_way(root, below, O_RDONLY | O_DIRECTORY);
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(descriptor >= 0 ? ::fdopendir(descriptor) : nullptr,
                                                   ::closedir);
  if (folder == nullptr) {
    if (descriptor >= 0) ::close(descriptor);
    return names;
  }
  while (const dirent* entry = ::readdir(folder.get())) {
    struct stat status {};
    if (::fstatat(descriptor, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode))
      names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace longhaul
