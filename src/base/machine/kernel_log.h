// KernelLog: what the kernel says from the moment on in which this was made (/dev/kmsg), a record each. What programs write there counts for nothing:
// only the kernel's own records are told.
//
//   KernelLog log;
//   for (const std::string& line : log.next()) …     // since the call before; does not wait
//
// A kernel that keeps its log from users (kernel.dmesg_restrict, containers) has none: `problem` says why, and next() is empty. Another file than the
// kernel's is read from its end on as it grows, for tests. One thread at a time.
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
  const std::string& problem() const { return problem_; }  // empty: it can be read

 private:
  void take(std::string_view text, std::vector<std::string>& into);
  int descriptor_ = -1;
  std::string problem_, begun_;  // begun: a line of a file whose end has not been written yet
};

}  // namespace longhaul
