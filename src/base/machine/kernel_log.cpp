#include "base/machine/kernel_log.h"

#include "base/text/number.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>

namespace longhaul {
namespace {

// Twice the kernel's limit; a buffer shorter than a record would be an error.
constexpr size_t kLongestRecord = 16384;
// Per call: a kernel that logs faster than can be read must not hold its caller for ever.
constexpr int kMostRecords = 10'000;

// "6,1234,567890,-;text": the first number is 8 · facility + level, and the kernel's own facility is 0. Lines
// that begin with a blank belong to the previous record ("SUBSYSTEM=pci").
bool is_the_kernels(std::string_view line) {
  const int priority = leading_number<int>(line).value_or(-1);
  return priority >= 0 && priority < 8;
}

}  // namespace

KernelLog::KernelLog(const std::filesystem::path& file) {
  descriptor_ = ::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  const bool at_its_end = descriptor_ >= 0 && ::lseek(descriptor_, 0, SEEK_END) >= 0;
  if (!at_its_end) problem_ = file.string() + ": " + std::generic_category().message(errno);
}

KernelLog::~KernelLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void KernelLog::take(std::string_view text, std::vector<std::string>& into) {
  begun_ += text;
  for (size_t end = 0; (end = begun_.find('\n')) != std::string::npos; begun_.erase(0, end + 1)) {
    const std::string_view line = std::string_view(begun_).substr(0, end);
    const size_t words = line.find(';');
    if (words != std::string_view::npos && is_the_kernels(line)) into.emplace_back(line.substr(words + 1));
  }
}

std::vector<std::string> KernelLog::next() {
  std::vector<std::string> lines;
  if (!problem_.empty()) return lines;
  std::array<char, kLongestRecord> buffer{};
  for (int records = 0; records < kMostRecords; ++records) {
    const ssize_t got = ::read(descriptor_, buffer.data(), buffer.size());
    if (got > 0) {
      take({buffer.data(), static_cast<size_t>(got)}, lines);
    } else if (got == 0 || (errno != EINTR && errno != EPIPE)) {
      // EPIPE: records were overwritten before they were read
      break;
    }
  }
  return lines;
}

}  // namespace longhaul
