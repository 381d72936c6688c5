#include "base/process/process_threads.h"

#include "base/text/number.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace longhaul {
namespace {

// Without its last newline; empty where it cannot be read.
std::string proc_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

std::vector<ThreadState> threads_of(int64_t process) {
  std::vector<ThreadState> threads;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process), gone)) {
    ThreadState thread;
    const std::string number = entry.path().filename().string();
    thread.thread = parse_number<decltype(thread.thread)>(number).value_or(0);
    thread.name = proc_text(entry.path() / "comm");
    const std::string status = proc_text(entry.path() / "stat");
    const size_t after_name = status.rfind(") ");
    if (after_name == std::string::npos) continue;  // it has just ended
    thread.state = status[after_name + 2];
    thread.waits = proc_text(entry.path() / "wchan");
    if (thread.waits == "0") thread.waits.clear();
    threads.push_back(std::move(thread));
  }
  std::ranges::sort(threads, {}, &ThreadState::thread);
  return threads;
}

bool ask_for_diagnostics(int64_t process) {
  return process > 0 && ::kill(static_cast<pid_t>(process), SIGUSR2) == 0;
}

}  // namespace longhaul
