#include "base/process/process_identity.h"

#include <csignal>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/machine/machine.h"

namespace longhaul {
namespace {

// Field 22 of /proc/N/stat; the second, the program's name in brackets, may hold anything. 0: unknown, or the
// process has ended and waits for its parent.
int64_t start_of(int64_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text;
  if (!std::getline(file, text)) return 0;
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream rest(text.substr(name_end + 1));
  std::string state, skipped;
  int64_t started = 0;
  rest >> state;
  if (state == "Z" || state == "X") return 0;
  for (int field = 4; field < 22; ++field) rest >> skipped;
  return rest >> started ? started : 0;
}

ProcessIdentity find_own_identity() {
  std::error_code ignored;
  const std::string numbers = std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string();
  const Machine& here = machine();
  return {.host = here.host,
          .machine = fmt::format("{} {} {}", here.host, here.boot, numbers),
          .process = ::getpid(),
          .started = start_of(::getpid())};
}

}  // namespace

const ProcessIdentity& own_identity() {
  static thread_local ProcessIdentity own = find_own_identity();
  if (own.process != ::getpid()) own = find_own_identity();  // after a fork
  return own;
}

Presence presence_of(const ProcessIdentity& of) {
  if (of.machine != own_identity().machine) return Presence::kElsewhere;
  if (of.process <= 0 || (::kill(static_cast<pid_t>(of.process), 0) != 0 && errno == ESRCH))
    return Presence::kGone;
  const int64_t started = start_of(of.process);
  return started != 0 && started == of.started ? Presence::kRuns : Presence::kGone;
}

}  // namespace longhaul
