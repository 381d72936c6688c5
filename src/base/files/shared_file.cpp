#include "base/files/shared_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace longhaul {
namespace {

// Unique to one process: two processes that create the same file do not write into each other's.
std::filesystem::path unpublished(const std::filesystem::path& path) {
  return fmt::format("{}.{}", path.string(), ::getpid());
}

[[noreturn]] void refuse(const std::filesystem::path& path, size_t bytes, int problem) {
  throw Error({.code = ExitCode::kDisk,
               .what = "cannot make a file of shared memory",
               .expected = fmt::format("{} bytes", bytes),
               .found = std::strerror(problem),
               .where = path.string(),
               .hint = "see df /dev/shm; in a container, mount a larger one"});
}

}  // namespace

SharedFile SharedFile::create(const std::filesystem::path& path, size_t bytes) {
  const std::filesystem::path name = unpublished(path);
  const int descriptor = ::open(name.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor < 0) refuse(path, bytes, errno);
  int problem = ::posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  void* const data =
      problem == 0 ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0) : MAP_FAILED;
  if (problem == 0 && data == MAP_FAILED) problem = errno;
  ::close(descriptor);
  if (problem != 0) {
    ::unlink(name.c_str());
    refuse(path, bytes, problem);
  }
  return {path, static_cast<std::byte*>(data), bytes};
}

void SharedFile::publish() {
  if (::rename(unpublished(path_).c_str(), path_.c_str()) != 0) refuse(path_, size_, errno);
}

std::optional<SharedFile> SharedFile::open(const std::filesystem::path& path, size_t bytes) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return std::nullopt;
  struct stat status {};
  const bool fits = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
                    status.st_size == static_cast<off_t>(bytes);
  void* const data = fits ? ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0) : MAP_FAILED;
  ::close(descriptor);
  if (data == MAP_FAILED) return std::nullopt;
  return SharedFile(path, static_cast<std::byte*>(data), bytes);
}

SharedFile::SharedFile(SharedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}

SharedFile& SharedFile::operator=(SharedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

SharedFile::~SharedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace longhaul
