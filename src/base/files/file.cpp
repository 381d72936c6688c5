#include "base/files/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

namespace longhaul {
namespace {

namespace fs = std::filesystem;

std::string errno_text(int number) { return std::generic_category().message(number); }

std::string hint_for(int number) {
  switch (number) {
    case ENOENT:
    case ENOTDIR:
      return "check the path";
    case EACCES:
    case EPERM:
      return "check the owner and the permissions with ls -l, or choose another path";
    case EROFS:
      return "choose a path on a file system that is mounted writable";
    case ENOSPC:
      return "free some space (df -h shows it) or choose another disk";
    case EDQUOT:
      return "your disk quota is used up: free some space or choose another disk";
    case EIO:
      return "the disk reports an error: look at dmesg and choose another disk";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files: ulimit -n 65536";
    default:
      return "";
  }
}

// A path that leads nowhere is the caller's case; every other error is the disk's.
bool leads_nowhere(int number) {
  return number == ENOENT || number == ENOTDIR || number == ENAMETOOLONG || number == ELOOP ||
         number == ENXIO;
}

[[noreturn]] void fail(int number, const std::string& action, const fs::path& path,
                       ExitCode missing = ExitCode::kDisk) {
  throw Error({.code = leads_nowhere(number) ? missing : ExitCode::kDisk,
               .what = "cannot " + action,
               .found = errno_text(number),
               .where = path.string(),
               .hint = hint_for(number)});
}

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

template <class Call>
auto retry(Call call) {
  decltype(call()) result;
  do result = call();
  while (result < 0 && errno == EINTR);
  return result;
}

int flags_of(File::Mode mode) {
  switch (mode) {
    case File::Mode::kRead:
      return O_RDONLY;
    case File::Mode::kCreate:
      return O_RDWR | O_CREAT;  // truncated only once it is known to be a regular file
    case File::Mode::kAppend:
      return O_RDWR | O_CREAT | O_APPEND;
    case File::Mode::kReadWrite:
      return O_RDWR | O_CREAT;
  }
  return O_RDONLY;
}

bool same_file(int descriptor, const fs::path& path) {
  struct stat ours {
  }, there{};
  return descriptor >= 0 && ::fstat(descriptor, &ours) == 0 && ::stat(path.c_str(), &there) == 0 &&
         ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

fs::path parent_of(const fs::path& path) {
  const fs::path parent = path.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

}  // namespace

File File::open(const fs::path& path, Mode mode, ExitCode missing) {
  const bool reading = mode == Mode::kRead;
  const std::string action = reading ? "open the file" : "open the file for writing";
  const ExitCode nowhere = reading ? missing : ExitCode::kDisk;
  File file;
  file.path_ = path;
  file.missing_ = missing;
  // O_NONBLOCK: opening a named pipe must not wait for its other end. It changes nothing for regular files.
  file.descriptor_ =
      retry([&] { return ::open(path.c_str(), flags_of(mode) | O_CLOEXEC | O_NONBLOCK, 0666); });
  struct stat status {};
  if (file.descriptor_ < 0) {
    const int number = errno;
    const bool other_kind = ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
    if (!other_kind) fail(number, action, path, nowhere);
  } else if (::fstat(file.descriptor_, &status) != 0) {
    fail(errno, action, path, nowhere);
  }
  if (!S_ISREG(status.st_mode))
    throw Error({.code = nowhere,
                 .what = "cannot " + action,
                 .expected = "a regular file",
                 .found = std::string(kind_of(status.st_mode)),
                 .where = path.string(),
                 .hint = "name a file"});
  if (mode == Mode::kCreate) file.truncate(0);
  return file;
}

bool File::is_at_its_path() const { return same_file(descriptor_, path_); }

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      missing_(other.missing_) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  std::swap(missing_, other.missing_);
  return *this;
}

int64_t File::size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail(errno, "ask the file's size", path_);
  return status.st_size;
}

size_t File::read_some(int64_t offset, std::span<std::byte> into) const {
  const ssize_t count = retry([&] { return ::pread(descriptor_, into.data(), into.size(), offset); });
  if (count < 0) fail(errno, "read the file", path_);
  return static_cast<size_t>(count);
}

void File::read_exactly(int64_t offset, std::span<std::byte> into) const {
  size_t done = 0;
  while (done < into.size()) {
    const size_t count = read_some(offset + static_cast<int64_t>(done), into.subspan(done));
    if (count == 0)
      throw Error({.code = missing_,
                   .what = "the file is too short",
                   .expected = fmt::format("{} bytes from byte {} on", into.size(), offset),
                   .found = fmt::format("{} of them; the file holds {} bytes", done, size()),
                   .where = path_.string(),
                   .hint = "it was cut short or is still being written: make or fetch it again"});
    done += count;
  }
}

void File::write(std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t count = retry([&] { return ::write(descriptor_, data.data(), data.size()); });
    if (count < 0) fail(errno, "write the file", path_);
    data = data.subspan(static_cast<size_t>(count));
  }
}

void File::write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

void File::write_at(int64_t offset, std::span<const std::byte> data) {
  // Linux sends pwrite to the end of a file opened with O_APPEND, whatever the offset.
  LONGHAUL_ASSERT((::fcntl(descriptor_, F_GETFL) & O_APPEND) == 0, "write_at on a file opened to append");
  while (!data.empty()) {
    const ssize_t count = retry([&] { return ::pwrite(descriptor_, data.data(), data.size(), offset); });
    if (count < 0) fail(errno, "write the file", path_);
    data = data.subspan(static_cast<size_t>(count));
    offset += count;
  }
}

void File::truncate(int64_t size) {
  if (retry([&] { return ::ftruncate(descriptor_, size); }) != 0)
    fail(errno, "change the file's size", path_);
}

void File::sync() {
  if (retry([&] { return ::fsync(descriptor_); }) != 0) fail(errno, "bring the file to disk", path_);
}

void File::close() {
  const int descriptor = std::exchange(descriptor_, -1);
  // After EINTR the descriptor is gone on Linux: closing again could hit another thread's file.
  if (descriptor >= 0 && ::close(descriptor) != 0 && errno != EINTR) fail(errno, "close the file", path_);
}

std::string read_text(const fs::path& path, ExitCode missing, int64_t limit_bytes) {
  const File file = File::open(path, File::Mode::kRead, missing);
  const int64_t size = file.size();
  if (size > limit_bytes)
    throw Error({.code = missing,
                 .what = "the file is too large to be read whole",
                 .expected = fmt::format("at most {} bytes", limit_bytes),
                 .found = fmt::format("{} bytes", size),
                 .where = path.string()});
  std::string text(static_cast<size_t>(size), '\0');
  file.read_exactly(0, std::as_writable_bytes(std::span(text.data(), text.size())));
  return text;
}

void write_text_atomically(const fs::path& path, std::string_view text) {
  static std::atomic<uint64_t> counter = 0;
  fs::path temporary = path;
  temporary += fmt::format(".{}-{}.tmp", ::getpid(), counter.fetch_add(1));
  try {
    File file = File::open(temporary, File::Mode::kCreate);
    file.write(text);
    file.sync();
    file.close();
    rename_path(temporary, path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

void sync_folder(const fs::path& folder) {
  const int descriptor = retry([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (descriptor < 0) fail(errno, "open the folder", folder);
  const int result = retry([&] { return ::fsync(descriptor); });
  const int number = errno;
  ::close(descriptor);
  if (result != 0) fail(number, "bring the folder to disk", folder);
}

void make_folders(const fs::path& folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) fail(code.value(), "make the folder", folder);
  // Some versions of the library report no error for a file of that name.
  if (!fs::is_directory(folder, code)) fail(ENOTDIR, "make the folder", folder);
}

void rename_path(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail(errno, "rename to " + to.string(), from);
  sync_folder(parent_of(to));
  if (parent_of(from) != parent_of(to)) sync_folder(parent_of(from));
}

std::vector<fs::path> list_files(const fs::path& folder) {
  std::error_code code;
  std::vector<fs::path> files;
  fs::recursive_directory_iterator entry(folder, code);
  if (code) fail(code.value(), "list the folder", folder, ExitCode::kData);
  while (entry != fs::recursive_directory_iterator()) {
    std::error_code vanished;  // a dangling link or a file deleted meanwhile is not a file any more
    if (entry->is_regular_file(vanished)) files.push_back(entry->path());
    const fs::path at = entry->path();
    entry.increment(code);
    if (code) fail(code.value(), "list the folder", at, ExitCode::kData);
  }
  std::sort(files.begin(), files.end(),
            [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  return files;
}

int64_t free_disk_bytes(const fs::path& folder) {
  fs::path existing = fs::absolute(folder);
  std::error_code code;
  while (!fs::exists(existing, code) && existing.has_relative_path()) existing = existing.parent_path();
  struct statvfs status {};
  if (retry([&] { return ::statvfs(existing.c_str(), &status); }) != 0)
    fail(errno, "ask for free space", existing);
  return static_cast<int64_t>(status.f_bavail) * static_cast<int64_t>(status.f_frsize);
}

MappedFile MappedFile::open(const fs::path& path, ExitCode missing) {
  MappedFile mapped;
  mapped.file_ = File::open(path, File::Mode::kRead, missing);
  mapped.size_ = mapped.file_.size();
  if (mapped.size_ == 0) return mapped;
  void* address =
      ::mmap(nullptr, static_cast<size_t>(mapped.size_), PROT_READ, MAP_SHARED, mapped.file_.descriptor_, 0);
  if (address == MAP_FAILED) fail(errno, "map the file into memory", path);
  mapped.data_ = static_cast<const std::byte*>(address);
  return mapped;
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), static_cast<size_t>(size_));
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : file_(std::move(other.file_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

std::span<const std::byte> MappedFile::range(int64_t offset, int64_t length) const {
  LONGHAUL_ASSERT(offset >= 0 && length >= 0, "offset {} length {}", offset, length);
  const int64_t now = std::min(size_, file_ ? file_.size() : 0);
  if (offset > now || length > now - offset)
    throw Error({.code = file_.missing_,
                 .what = now < size_ ? "the file shrank while it was in use" : "the file is too short",
                 .expected = fmt::format("{} bytes from byte {} on", length, offset),
                 .found = fmt::format("{} bytes in the file ({} when it was opened)", now, size_),
                 .where = path().string(),
                 .hint = "make or fetch it again"});
  return {data_ + offset, static_cast<size_t>(length)};
}

FileLock::FileLock(const fs::path& path) : lock_(path) {
  lock_ += ".lock";
  const fs::path& lock = lock_;
  descriptor_ = retry([&] { return ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666); });
  if (descriptor_ < 0) fail(errno, "open the lock file", lock);
  char holder[32] = {};
  if (retry([&] { return ::flock(descriptor_, LOCK_EX | LOCK_NB); }) == 0) {
    // The number is only for the message of the next one, so a failure to write it costs nothing.
    // padded: covers what an earlier holder wrote
    const std::string pid = fmt::format("{:<20}\n", ::getpid());
    [[maybe_unused]] const ssize_t written = ::pwrite(descriptor_, pid.data(), pid.size(), 0);
    return;
  }
  const int number = errno;
  const ssize_t length = ::pread(descriptor_, holder, sizeof holder - 1, 0);
  ::close(std::exchange(descriptor_, -1));
  if (number != EWOULDBLOCK) fail(number, "lock", lock);
  std::string pid(holder, length > 0 ? static_cast<size_t>(length) : 0);
  pid.resize(std::min(pid.size(), pid.find(' ')));
  throw Error({.code = ExitCode::kUsage,
               .what = "another process is using " + path.string(),
               .expected = "one user at a time",
               .found = pid.empty() ? "held by an unknown process" : "held by process " + pid,
               .where = lock.string(),
               .hint = "wait for it to end or choose another folder"});
}

std::optional<int64_t> FileLock::holder_of(const fs::path& path) {
  fs::path lock = path;
  lock += ".lock";
  struct ::stat status {};
  if (::stat(lock.c_str(), &status) != 0) return std::nullopt;
  // "1: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF"
  const std::string inode = fmt::format(":{}", status.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, strength, way, pid, place;
    words >> number >> kind >> strength >> way >> pid >> place;
    if (kind == "FLOCK" && place.ends_with(inode)) return std::strtoll(pid.c_str(), nullptr, 10);
  }
  return std::nullopt;
}

bool FileLock::is_at_its_path() const { return same_file(descriptor_, lock_); }

FileLock::~FileLock() {
  // The file stays: removing it would let two processes lock two files of the same name.
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace longhaul
