#include "base/memory/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <iterator>
#include <string_view>
#include <thread>
#include <utility>

#include "base/checksum.h"
#include "base/files/file.h"
#include "base/text/number.h"

namespace longhaul {
namespace {

constexpr const char* kMemory = "/dev/shm";

bool create(const std::filesystem::path& path) {  // false: it is there, or cannot be
  const int descriptor = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (descriptor >= 0) ::close(descriptor);
  return descriptor >= 0;
}

constexpr std::string_view kMark = "process-";  // with its number: marks a folder that the process uses
std::string mark_of_process() { return fmt::format("{}{}", kMark, ::getpid()); }
bool is_mark(const std::filesystem::directory_entry& entry) {
  return entry.path().filename().string().starts_with(kMark);
}

std::filesystem::path beside(const std::filesystem::path& path, const char* kind) {
  return path.string() + kind;
}

constexpr const char* kPrefix = "longhaul-shared-";

bool is_used(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (!is_mark(entry)) continue;
    const std::string number = entry.path().filename().string().substr(kMark.size());
    const pid_t process = leading_number<pid_t>(number).value_or(0);
    if (::kill(process, 0) == 0 || errno == EPERM) return true;
  }
  return false;
}

// If memory is full, the waiting readers become makers: each then makes the data itself.
void publish(const std::filesystem::path& path, const std::string& bytes) {
  const std::filesystem::path unfinished = beside(path, ".unfinished");
  const int descriptor = ::open(unfinished.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  if (descriptor < 0) return;
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t count = ::write(descriptor, bytes.data() + written, bytes.size() - written);
    if (count <= 0) break;
    written += static_cast<size_t>(count);
  }
  ::close(descriptor);
  ::rename(unfinished.c_str(), written == bytes.size() ? path.c_str() : beside(path, ".failed").c_str());
}

}  // namespace

std::filesystem::path shared_memory_folder(const std::string& name) {
  const std::filesystem::path memory = kMemory, folder = memory / (kPrefix + name);
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator(memory, problem)) {
    if (entry.path() == folder || !entry.path().filename().string().starts_with(kPrefix) ||
        is_used(entry.path()))
      continue;
    std::filesystem::remove_all(entry.path(), problem);
  }
  std::filesystem::create_directory(folder, problem);
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all, problem);
  return create(folder / mark_of_process()) ? folder : std::filesystem::path();
}

uint64_t shared_memory_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  struct stat status {};
  if (::stat(kMemory, &status) == 0) text += fmt::format(" {} {}", status.st_dev, status.st_ino);
  return xxh3(text);
}

MadeOnce::MadeOnce(std::filesystem::path folder, int64_t readers, double patience_seconds)
    : folder_(std::move(folder)), readers_(readers), patience_(patience_seconds) {}

MadeOnce::~MadeOnce() {
  std::error_code ignored;
  if (!std::filesystem::remove(folder_ / mark_of_process(), ignored)) return;
  const auto entries = std::filesystem::directory_iterator(folder_, ignored);
  if (std::none_of(begin(entries), end(entries), is_mark)) std::filesystem::remove_all(folder_, ignored);
}

std::string MadeOnce::get(const std::string& key, const std::function<std::string()>& make) const {
  const std::filesystem::path path = folder_ / key;
  if (create(beside(path, ".claim"))) {
    try {
      std::string bytes = make();
      publish(path, bytes);
      count_reader(path);
      return bytes;
    } catch (...) {
      create(beside(path, ".failed"));
      throw;
    }
  }
  if (!wait_for(path)) return make();  // no other process will
  std::string bytes = read_text(path);
  count_reader(path);
  return bytes;
}

bool MadeOnce::wait_for(const std::filesystem::path& path) const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience_);
  while (::access(path.c_str(), F_OK) != 0) {
    if (std::chrono::steady_clock::now() > end || ::access(beside(path, ".failed").c_str(), F_OK) == 0)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

void MadeOnce::count_reader(const std::filesystem::path& path) const {
  const std::filesystem::path counter = beside(path, ".read");
  const int descriptor = ::open(counter.c_str(), O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0600);
  if (descriptor < 0) return;
  struct stat status {};
  const bool last =
      ::write(descriptor, "", 1) == 1 && ::fstat(descriptor, &status) == 0 && status.st_size >= readers_;
  ::close(descriptor);
  if (!last) return;
  for (const char* kind : {"", ".claim", ".read", ".failed"}) ::unlink(beside(path, kind).c_str());
}

}  // namespace longhaul
