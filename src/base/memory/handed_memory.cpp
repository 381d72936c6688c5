#include "base/memory/handed_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/error.h"

namespace longhaul {
namespace {

constexpr size_t kHead = 64;  // before data(): a unique number, so that a reused process number is noticed

// The maker holds a lock on it that ends with the maker; the lock belongs to the open file, not to the
// process, because two neighbours may be threads of one process.
struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

std::byte* mapped(int descriptor, size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

[[noreturn]] void fail_to_make(size_t bytes) {
  const int code = errno;
  throw Error({.code = ExitCode::kOutOfMemory,
               .what = "memory for messages between processes cannot be made",
               .expected = fmt::format("{} bytes of shared memory", bytes),
               .found = std::strerror(code)});
}

}  // namespace

HandedMemory::HandedMemory(int descriptor, std::byte* mapped, size_t bytes, std::string address)
    : descriptor_(descriptor), mapped_(mapped), bytes_(bytes), address_(std::move(address)) {}

HandedMemory::HandedMemory(HandedMemory&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      mapped_(std::exchange(other.mapped_, nullptr)),
      bytes_(other.bytes_),
      address_(std::move(other.address_)) {}

HandedMemory::~HandedMemory() {
  if (mapped_) ::munmap(mapped_, bytes_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::byte* HandedMemory::data() const { return mapped_ + kHead; }

HandedMemory HandedMemory::make(size_t bytes) {
  const int descriptor = ::memfd_create("longhaul-messages", MFD_CLOEXEC);
  if (descriptor < 0) fail_to_make(bytes);
  HandedMemory made(descriptor, nullptr, bytes + kHead, "");
  struct flock lock = whole_file();
  if (::ftruncate(descriptor, static_cast<off_t>(made.bytes_)) != 0 ||
      ::fcntl(descriptor, F_OFD_SETLK, &lock) != 0)
    fail_to_make(bytes);
  made.mapped_ = mapped(descriptor, made.bytes_);
  if (!made.mapped_) fail_to_make(bytes);
  uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) fail_to_make(bytes);
  std::memcpy(made.mapped_, &number, sizeof number);
  made.address_ = fmt::format("{} {} {}", ::getpid(), descriptor, number);
  return made;
}

std::optional<HandedMemory> HandedMemory::open(const std::string& address, size_t bytes) {
  long process = 0, number_there = 0;
  unsigned long long number = 0, found = 0;
  if (std::sscanf(address.c_str(), "%ld %ld %llu", &process, &number_there, &number) != 3)
    return std::nullopt;
  const int descriptor =
      ::open(fmt::format("/proc/{}/fd/{}", process, number_there).c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return std::nullopt;
  HandedMemory opened(descriptor, nullptr, bytes + kHead, address);
  struct stat about {};
  if (::fstat(descriptor, &about) != 0 || !S_ISREG(about.st_mode) ||
      static_cast<size_t>(about.st_size) != opened.bytes_)
    return std::nullopt;
  opened.mapped_ = mapped(descriptor, opened.bytes_);
  if (!opened.mapped_) return std::nullopt;
  std::memcpy(&found, opened.mapped_, sizeof found);
  if (found != number) return std::nullopt;
  return opened;
}

bool HandedMemory::maker_lives() const {
  struct flock lock = whole_file();
  return ::fcntl(descriptor_, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

void sleep_while(const std::atomic<uint32_t>& word, uint32_t seen, std::chrono::milliseconds longest) {
  const timespec time = {longest.count() / 1000, longest.count() % 1000 * 1'000'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void wake_all(const std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace longhaul
