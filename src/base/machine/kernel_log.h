// KernelLog: the records that the kernel logs from the construction of the object on (/dev/kmsg). Records
// that programs write there are left out.
//
//   KernelLog log;
//   for (const std::string& line : log.next()) …     // since the last call; does not wait
//
// If the kernel hides its log from users (kernel.dmesg_restrict, containers), `problem` says so and next()
// returns nothing. For tests, any other file is read from its current end on as it grows. Not thread-safe:
// one thread at a time.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace longhaul {

class KernelLog {
 public:
  explicit KernelLog(const std::filesystem::path& file = "/dev/kmsg");
  ~KernelLog();
  KernelLog(const KernelLog&) = delete;
  KernelLog& operator=(const KernelLog&) = delete;

  std::vector<std::string> next();
  const std::string& problem() const { return problem_; }  // empty: the log can be read

 private:
  void take(std::string_view text, std::vector<std::string>& into);
  int descriptor_ = -1;
  std::string problem_, begun_;  // begun_: the beginning of a line whose end has not been written yet
};

}  // namespace longhaul
