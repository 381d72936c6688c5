#include "base/process/fault_point.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/terminal.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::chrono::milliseconds kMoment{5};

struct NamedAction {
  std::string_view name;
  FaultAction action;
  bool has_value;
};
constexpr std::array<NamedAction, 11> kActions = {{{"kill", FaultAction::kKill, false},
                                                   {"segfault", FaultAction::kSegfault, false},
                                                   {"abort", FaultAction::kAbort, false},
                                                   {"stop", FaultAction::kStop, false},
                                                   {"hang", FaultAction::kHang, false},
                                                   {"slow", FaultAction::kSlow, true},
                                                   {"wait", FaultAction::kWait, true},
                                                   {"eat", FaultAction::kEat, true},
                                                   {"exit", FaultAction::kExit, true},
                                                   {"fail", FaultAction::kFail, true},
                                                   {"corrupt", FaultAction::kCorrupt, false}}};

[[noreturn]] void refuse(std::string_view entry, std::string expected) {
  throw Error({.code = ExitCode::kUsage,
               .what = "cannot understand a planned fault",
               .expected = std::move(expected),
               .found = std::string(entry),
               .where = "LONGHAUL_FAULTS",
               .hint = "for example: step.update:step=12:rank=2 kill"});
}

std::pair<std::string_view, std::string_view> named_value(std::string_view text) {
  const size_t at = text.find('=');
  return {text.substr(0, at), at == std::string_view::npos ? std::string_view() : text.substr(at + 1)};
}

int64_t whole_number(std::string_view entry, std::string_view text) {
  const std::string copy(text);
  char* end = nullptr;
  const int64_t value = std::strtoll(copy.c_str(), &end, 10);
  if (copy.empty() || *end != 0) refuse(entry, "a whole number");
  return value;
}

void read_condition(PlannedFault& fault, std::string_view entry, std::string_view condition) {
  const auto [name, value] = named_value(condition);
  if (name == "step")
    fault.step = whole_number(entry, value);
  else if (name == "rank")
    fault.rank = whole_number(entry, value);
  else if (name == "generation")
    fault.generation = whole_number(entry, value);
  else if (name == "count")
    fault.count = whole_number(entry, value);
  else if (name == "node")
    fault.node = std::string(value);
  else if (name == "once" && !value.empty())
    fault.once = std::string(value);
  else if (name == "until" && !value.empty())
    fault.until = std::string(value);
  else
    refuse(entry, "step, rank, generation, node, count, once=FILE or until=FILE");
}

PlannedFault planned_fault(std::string_view entry) {
  PlannedFault fault;
  const size_t space = entry.rfind(' ');
  if (space == std::string_view::npos) refuse(entry, "POINT[:CONDITION=VALUE…] ACTION");
  const std::vector<std::string_view> place = split(trimmed(entry.substr(0, space)), ':');
  fault.point = std::string(place.front());
  for (size_t i = 1; i < place.size(); ++i) read_condition(fault, entry, place[i]);
  const auto [name, value] = named_value(entry.substr(space + 1));
  const auto found = std::ranges::find(kActions, name, &NamedAction::name);
  if (found == kActions.end())
    refuse(entry,
           "kill, segfault, abort, stop, hang, slow=SECONDS, wait=SECONDS, eat=BYTES, exit=CODE, fail=CODE "
           "or corrupt");
  if (found->has_value == value.empty())
    refuse(entry, found->has_value ? "a value behind the action" : "no value behind the action");
  fault.action = found->action;
  if (found->has_value) {
    const std::string copy(value);
    char* end = nullptr;
    fault.value = std::strtod(copy.c_str(), &end);
    if (*end != 0 || !(fault.value >= 0)) refuse(entry, "a number behind the action");
  }
  if ((fault.action == FaultAction::kWait) != fault.until.has_value())
    refuse(entry, "until=FILE with wait=SECONDS, and with nothing else");
  return fault;
}

int64_t number_of(const std::optional<std::string>& text) {
  return text ? std::strtoll(text->c_str(), nullptr, 10) : 0;
}

std::optional<std::string> of_environment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? std::nullopt : std::optional<std::string>(text);
}

FaultPlan& plan() {
  static FaultPlan planned(of_environment("LONGHAUL_FAULTS").value_or(""), of_environment);
  static const bool said = [] {
    say(stderr, fmt::format("warning: faults are planned for this process: {}\n",
                            of_environment("LONGHAUL_FAULTS").value_or("")));
    return true;
  }();
  (void)said;
  return planned;
}

}  // namespace

// Also in a thread that blocks signals, as workers do: a raised signal would stay pending there, unlike a
// real one.
void end_by_segfault() {
  ::signal(SIGSEGV, SIG_DFL);
  sigset_t segfault;
  ::sigemptyset(&segfault);
  ::sigaddset(&segfault, SIGSEGV);
  ::pthread_sigmask(SIG_UNBLOCK, &segfault, nullptr);
  ::raise(SIGSEGV);
}

std::vector<PlannedFault> parse_faults(std::string_view text) {
  std::vector<PlannedFault> faults;
  for (const std::string_view entry : split(text, ';')) {
    if (const std::string_view whole = trimmed(entry); !whole.empty()) faults.push_back(planned_fault(whole));
  }
  return faults;
}

std::optional<FaultMark> read_fault_mark(const std::filesystem::path& file) {
  std::ifstream stream(file);
  FaultMark mark;
  if (stream >> mark.generation >> mark.rank >> mark.wall_time >> mark.process >> mark.node) return mark;
  return std::nullopt;
}

bool leave_fault_mark(const std::filesystem::path& file, const FaultMark& mark) {
  const std::string text = fmt::format("{} {} {:.6f} {} {}\n", mark.generation, mark.rank, mark.wall_time,
                                       mark.process, mark.node.empty() ? "-" : mark.node);
  const int descriptor = ::open(file.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
  const bool exists = descriptor < 0 && errno == EEXIST;
  const bool written =
      descriptor >= 0 && ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int reason = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (!written && !exists) {
    throw Error({.code = ExitCode::kDisk,
                 .what = "cannot leave the mark of a planned fault",
                 .found = std::strerror(reason),
                 .where = file.string(),
                 .hint = "LONGHAUL_FAULTS names it: once=FILE, in a folder that exists"});
  }
  return written;
}

FaultPlan::FaultPlan(std::string_view text, const Variable& variable)
    : faults_(parse_faults(text)),
      who_{.generation = number_of(variable("LONGHAUL_GENERATION")),
           .rank = number_of(variable("RANK")),
           .process = ::getpid(),
           .node = variable("LONGHAUL_NODE").value_or("-")} {
  const auto other = [&](const char* name, const std::optional<int64_t>& wanted) {
    return wanted && variable(name).value_or("0") != std::to_string(*wanted);
  };
  std::erase_if(faults_, [&](const PlannedFault& fault) {
    return other("RANK", fault.rank) || other("LONGHAUL_GENERATION", fault.generation) ||
           (fault.node && variable("LONGHAUL_NODE") != fault.node);
  });
}

std::optional<PlannedFault> FaultPlan::meet(std::string_view point, int64_t step) {
  const std::lock_guard lock(mutex_);
  for (PlannedFault& fault : faults_) {
    if (fault.point != point || (fault.step && *fault.step != step)) continue;
    if (++fault.met; fault.count && *fault.count != fault.met) continue;
    FaultMark mark = who_;
    mark.wall_time = wall_time_s();
    if (!fault.once || leave_fault_mark(*fault.once, mark)) return fault;
  }
  return std::nullopt;
}

const bool fault_point_detail::kPlanned = std::getenv("LONGHAUL_FAULTS") != nullptr;

bool fault_point_detail::meet(std::string_view point, int64_t step) {
  const std::optional<PlannedFault> fault = plan().meet(point, step);
  if (!fault) return false;
  switch (fault->action) {
    case FaultAction::kKill:
      ::kill(::getpid(), SIGKILL);
      break;
    case FaultAction::kSegfault:
      end_by_segfault();
      break;
    case FaultAction::kAbort:
      std::abort();
    case FaultAction::kStop:
      ::kill(::getpid(), SIGSTOP);
      break;
    case FaultAction::kHang:
      while (true) std::this_thread::sleep_for(std::chrono::hours(1));
    case FaultAction::kSlow:
      std::this_thread::sleep_for(std::chrono::duration<double>(fault->value));
      break;
    case FaultAction::kWait:
      for (const Stopwatch watch; watch.seconds() < fault->value && !std::filesystem::exists(*fault->until);)
        std::this_thread::sleep_for(kMoment);
      break;
    case FaultAction::kEat: {
      std::vector<char> eaten(static_cast<size_t>(fault->value));
      for (size_t i = 0; i < eaten.size(); i += 4096) static_cast<volatile char*>(eaten.data())[i] = 1;
      break;
    }
    case FaultAction::kExit:
      ::_exit(static_cast<int>(fault->value));
    case FaultAction::kFail:
      throw Error({.code = static_cast<ExitCode>(static_cast<int>(fault->value)),
                   .what = fmt::format("a planned fault at {}", point),
                   .where = "LONGHAUL_FAULTS"});
    case FaultAction::kCorrupt:
      return true;
  }
  return false;
}

}  // namespace longhaul
