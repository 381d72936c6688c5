#include "control/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "control/ledger.h"

namespace longhaul::control {
namespace {

constexpr std::array<std::string_view, 23> kFaultNames = {"device",
                                                          "device_degraded",
                                                          "device_or_application",
                                                          "user_code",
                                                          "unclear",
                                                          "killed",
                                                          "host_out_of_memory",
                                                          "out_of_memory",
                                                          "network",
                                                          "fail_slow",
                                                          "storage",
                                                          "hang",
                                                          "numeric",
                                                          "node_daemon",
                                                          "machine_unreachable",
                                                          "communication",
                                                          "preempted",
                                                          "fenced",
                                                          "configuration",
                                                          "internal",
                                                          "deadline",
                                                          "failed_check",
                                                          "deadly_batch"};
constexpr std::array<std::string_view, 3> kFaultNamesMore = {"operator", "driver_away", "stuck_work"};
constexpr std::array<std::string_view, 11> kActionNames = {
    "tolerate",     "alarm",      "restart",    "restart_node",
    "evict_node",   "evict_node", "check_node", "replace_at_checkpoint",
    "search_batch", "stop",       "end"};

constexpr int kSignal = 128;

// XID numbers of NVIDIA's driver, by the action that they require.
bool one_of(int64_t number, std::initializer_list<int64_t> list) {
  return std::ranges::find(list, number) != list.end();
}

// True for a signal that somebody sends; other signals are caused by the process itself.
bool ended_from_outside(int64_t status) {
  constexpr int64_t kHangup = 1, kInterrupt = 2, kKill = 9, kTerminate = 15;
  return one_of(status - kSignal, {kHangup, kInterrupt, kKill, kTerminate});
}

// Counts faults since a newer step was committed.
bool without_progress(const Ledger& history) {
  return history.committed_step <= history.committed_at_last_fault;
}

int64_t same_trace(const Ledger& history, const std::string& trace) {
  if (trace.empty() || !without_progress(history)) return 0;
  int64_t left = history.cycles, found = 0;
  for (auto incident = history.incidents.rbegin(); incident != history.incidents.rend() && left > 0;
       ++incident) {
    if (!incident->opened.restarts) continue;
    --left;
    found += incident->opened.trace == trace ? 1 : 0;
  }
  return found;
}

// The last fault was the same at the same step, so the samples are the likely cause. A prefetched sample can
// kill at any of the steps before its own.
bool died_here_before(const Fault& fault, const Ledger& history, const Policy& policy) {
  if (fault.trace.empty() || fault.step < 0 || !without_progress(history)) return false;
  const SearchChanged& before = history.search;
  // It has already been searched for here.
  if (before.failed && before.trace == fault.trace && fault.step <= before.deadly_step) return false;
  for (auto incident = history.incidents.rbegin(); incident != history.incidents.rend(); ++incident) {
    if (!incident->opened.restarts) continue;
    return incident->opened.trace == fault.trace &&
           std::abs(incident->opened.step - fault.step) <= policy.read_ahead;
  }
  return false;
}

Verdict of_crash(const Fault& fault, FaultClass kind, const Ledger& history, const Policy& policy,
                 double now_s) {
  if (died_here_before(fault, history, policy))
    return {.fault = FaultClass::kDeadlyBatch,
            .action = Action::kSearchBatch,
            .why = "the same at the same step again"};
  if (policy.stop_for_software && same_trace(history, fault.trace) >= 2) {
    return {.fault = kind, .action = Action::kStop, .why = "three times the same without a newer checkpoint"};
  }
  if (kind == FaultClass::kUnclear) {
    const auto here = [&](const IncidentRecord& incident) {
      return incident.fault() == FaultClass::kUnclear && incident.node() == fault.node;
    };
    if (history.count(now_s, policy.same_place_s, here) >= 2) {
      return {.fault = kind, .action = Action::kDiagnose, .why = "the third crash of a rank of this node"};
    }
  }
  return {.fault = kind, .action = Action::kRestart, .why = ""};
}

Verdict of_memory(const Fault& fault, FaultClass kind, const Ledger& history, const Policy& policy,
                  double now_s) {
  const auto same = [&](const IncidentRecord& incident) { return incident.fault() == kind; };
  if (history.count(now_s, policy.same_place_s, same) >= 1) {
    return {.fault = kind,
            .action = Action::kStop,
            .why = "the second time: give it less to hold (train.micro_batch, train.recompute)"};
  }
  if (kind == FaultClass::kDeviceMemory && fault.step <= 5) {
    return {.fault = kind,
            .action = Action::kStop,
            .why = "in the first steps: it does not fit (train.micro_batch, train.recompute)"};
  }
  return {.fault = kind, .action = Action::kRestart, .why = ""};
}

Verdict of_signal(const Fault& fault, const Ledger& history, const Policy& policy, double now_s) {
  if (ended_from_outside(fault.status))
    return {.fault = FaultClass::kKilled, .action = Action::kRestart, .why = ""};
  return of_crash(fault, fault.ranks.size() > 1 ? FaultClass::kUserCode : FaultClass::kUnclear, history,
                  policy, now_s);
}

Verdict of_exit(const Fault& fault, const Ledger& history, const Policy& policy, double now_s) {
  if (fault.out_of_memory) return of_memory(fault, FaultClass::kHostMemory, history, policy, now_s);
  if (fault.status > kSignal) return of_signal(fault, history, policy, now_s);
  const auto end = [&](FaultClass kind) {
    return Verdict{
        .fault = kind, .action = Action::kEnd, .code = static_cast<ExitCode>(fault.status), .why = ""};
  };
  const auto restart = [](FaultClass kind, Action action = Action::kRestart) {
    return Verdict{.fault = kind, .action = action, .why = ""};
  };
  const auto code = static_cast<ExitCode>(fault.status);
  if (restart_is_futile(code))
    return end(code == ExitCode::kFenced ? FaultClass::kFenced : FaultClass::kConfiguration);
  switch (code) {
    case ExitCode::kNumeric:
      return restart(FaultClass::kNumeric);
    case ExitCode::kOutOfMemory:
      return of_memory(fault, FaultClass::kDeviceMemory, history, policy, now_s);
    case ExitCode::kCommunication:
      return restart(FaultClass::kCommunication);
    case ExitCode::kInternal:
      return of_crash(fault, FaultClass::kInternal, history, policy, now_s);
    case ExitCode::kDevice:
      return restart(FaultClass::kDevice, Action::kEvict);
    case ExitCode::kHang:
      return restart(FaultClass::kHang, Action::kEvictIfReplaceable);
    case ExitCode::kDisk:
      return restart(FaultClass::kStorage);
    case ExitCode::kPreemptedSaved:
    case ExitCode::kPreemptedNotSaved:
      return end(FaultClass::kPreempted);
    default:
      return of_crash(fault, fault.ranks.size() > 1 ? FaultClass::kUserCode : FaultClass::kUnclear, history,
                      policy, now_s);
  }
}

Verdict of_xid(const Fault& fault, const Ledger& history, const Policy& policy, double now_s) {
  if (one_of(fault.number, {48, 62, 64, 74, 79, 95, 119, 120, 122, 123, 140}))
    return {.fault = FaultClass::kDevice, .action = Action::kEvict, .why = ""};
  if (one_of(fault.number, {63, 92}))
    return {.fault = FaultClass::kDeviceDegraded, .action = Action::kReplaceAtCheckpoint, .why = ""};
  if (fault.number == 94)
    return {.fault = FaultClass::kDeviceDegraded,
            .action = Action::kRestart,
            .why = "its process is lost; its node goes at the next checkpoint"};
  if (one_of(fault.number, {13, 31, 43, 45})) {
    const auto same = [&](const IncidentRecord& incident) {
      return incident.fault() == FaultClass::kDeviceOrApplication && incident.node() == fault.node &&
             incident.opened.device == fault.device;
    };
    if (history.count(now_s, policy.same_place_s, same) >= 1) {
      return {.fault = FaultClass::kDeviceOrApplication,
              .action = Action::kDiagnose,
              .why = "the second time on this device"};
    }
    return {.fault = FaultClass::kDeviceOrApplication, .action = Action::kRestart, .why = ""};
  }
  return {.fault = FaultClass::kDeviceOrApplication,
          .action = Action::kAlarm,
          .why = "a number that says nothing of the device"};
}

// A switch takes down the links of all its nodes: evicting one after the other would not help.
bool most_lost_links(const Fault& fault, const Ledger& history, const Policy& policy, double now_s) {
  std::set<std::string> nodes = {fault.node};
  for (const IncidentRecord& incident : history.incidents) {
    if (incident.fault() == FaultClass::kNetwork && now_s - incident.noticed_s() <= policy.network_s)
      nodes.insert(incident.node());
  }
  return nodes.size() > 1 && 2 * nodes.size() > history.placement.size();
}

Verdict of_health(const Fault& fault, const Ledger& history, const Policy& policy, double now_s) {
  if (fault.kind == "xid") return of_xid(fault, history, policy, now_s);
  if (fault.kind == "device_missing" || fault.kind == "device_broken")
    return {.fault = FaultClass::kDevice, .action = Action::kEvict, .why = ""};
  if (fault.kind == "device_degraded")
    return {.fault = FaultClass::kDeviceDegraded, .action = Action::kReplaceAtCheckpoint, .why = ""};
  if (fault.kind == "network") {
    const auto same = [&](const IncidentRecord& incident) {
      return incident.fault() == FaultClass::kNetwork && incident.node() == fault.node;
    };
    if (most_lost_links(fault, history, policy, now_s)) {
      return {.fault = FaultClass::kNetwork,
              .action = Action::kTolerate,
              .why = "most nodes lost theirs: what they share is at fault"};
    }
    if (history.count(now_s, policy.network_s, same) >= 1) {
      return {.fault = FaultClass::kNetwork, .action = Action::kEvict, .why = "the second within minutes"};
    }
    return {.fault = FaultClass::kNetwork, .action = Action::kTolerate, .why = ""};
  }
  if (fault.kind == "degraded_link" || fault.kind == "throttled" || fault.kind == "slow")
    return {.fault = FaultClass::kFailSlow, .action = Action::kReplaceAtCheckpoint, .why = ""};
  if (fault.kind == "slow_now")
    return {.fault = FaultClass::kFailSlow,
            .action = Action::kEvictIfReplaceable,
            .why = "it has cost more than a restart, and no checkpoint came"};
  if (fault.kind == "storage")
    return {.fault = FaultClass::kStorage,
            .action = Action::kAlarm,
            .why = "training goes on with what is in memory"};
  if (fault.kind == "log")
    return {
        .fault = FaultClass::kUnclear, .action = Action::kAlarm, .why = "training goes on until it cannot"};
  return {.fault = FaultClass::kUnclear, .action = Action::kAlarm, .why = "an unknown report"};
}

// The first time the storage may be at fault as well as the node.
Verdict of_stuck_work(const Fault& fault, const Ledger& history, const Policy& policy, double now_s) {
  const auto same = [&](const IncidentRecord& incident) {
    return incident.fault() == FaultClass::kStuckWork && incident.node() == fault.node;
  };
  const bool again = !fault.node.empty() && history.count(now_s, policy.same_place_s, same) >= 1;
  return {.fault = FaultClass::kStuckWork,
          .action = again ? Action::kEvictIfReplaceable : Action::kRestart,
          .why = again ? "the second on this node" : ""};
}

Verdict of_hang(const Fault& fault, const Ledger& history, const Policy& policy, double now_s) {
  if (!fault.kind.empty()) return of_stuck_work(fault, history, policy, now_s);
  if (fault.program) return of_crash(fault, FaultClass::kUserCode, history, policy, now_s);
  if (fault.node.empty())
    return {.fault = FaultClass::kHang, .action = Action::kRestart, .why = "nobody stands out"};
  const auto same = [&](const IncidentRecord& incident) {
    return incident.fault() == FaultClass::kHang && incident.node() == fault.node;
  };
  const bool again = history.count(now_s, policy.same_place_s, same) >= 1;
  return {.fault = FaultClass::kHang,
          .action = again ? Action::kEvict : Action::kEvictIfReplaceable,
          .why = again ? "the second on this node" : ""};
}

}  // namespace

std::string_view name_of(FaultClass fault) {
  const auto place = static_cast<size_t>(fault);
  return place < kFaultNames.size() ? kFaultNames[place] : kFaultNamesMore[place - kFaultNames.size()];
}

std::optional<FaultClass> fault_class_named(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(FaultClass::kStuckWork); ++i) {
    if (name_of(static_cast<FaultClass>(i)) == name) return static_cast<FaultClass>(i);
  }
  return std::nullopt;
}

std::string_view name_of(Action action) { return kActionNames[static_cast<size_t>(action)]; }

bool is_victim(const Fault& fault) {
  return fault.source == Fault::Source::kExit &&
         fault.status == static_cast<int64_t>(ExitCode::kCommunication);
}

const Fault& first_cause(const std::vector<Fault>& faults) {
  LONGHAUL_ASSERT(!faults.empty(), "a verdict without a fault");
  const auto own = std::ranges::find_if_not(faults, is_victim);
  if (own != faults.end()) return *own;
  return *std::ranges::min_element(faults, {},
                                   [](const Fault& fault) { return std::pair(!fault.own, fault.failed_s); });
}

Verdict classify(const Fault& fault, const Ledger& history, const Policy& policy, double now_s) {
  switch (fault.source) {
    case Fault::Source::kExit:
      return of_exit(fault, history, policy, now_s);
    case Fault::Source::kHealth:
      return of_health(fault, history, policy, now_s);
    case Fault::Source::kHang:
      return of_hang(fault, history, policy, now_s);
    case Fault::Source::kNodeSilent:
      return {.fault = FaultClass::kMachine, .action = Action::kEvict, .why = ""};
    case Fault::Source::kNodeDied:
      if (!fault.reachable || !policy.restart_nodes)
        return {.fault = FaultClass::kMachine, .action = Action::kEvict, .why = ""};
      return {.fault = FaultClass::kNodeDaemon, .action = Action::kRestartNode, .why = ""};
    case Fault::Source::kDeadline:
      return {.fault = FaultClass::kDeadline, .action = Action::kRestart, .why = ""};
    case Fault::Source::kCheck:
      return {.fault = FaultClass::kFailedCheck, .action = Action::kEvict, .why = ""};
    case Fault::Source::kOperator:
      return {.fault = FaultClass::kOperator, .action = Action::kReplaceAtCheckpoint, .why = ""};
    case Fault::Source::kDriver:
      return {.fault = FaultClass::kDriver, .action = Action::kRestart, .why = ""};
  }
  return {};
}

bool restart_is_futile(ExitCode code) {
  return code == ExitCode::kUsage || code == ExitCode::kData || code == ExitCode::kCheckpoint ||
         code == ExitCode::kFenced || code == ExitCode::kDoNotRestart;
}

bool restarts_ranks(Action action) {
  return action == Action::kRestart || action == Action::kRestartNode || action == Action::kEvict ||
         action == Action::kEvictIfReplaceable || action == Action::kDiagnose ||
         action == Action::kSearchBatch;
}

std::string last_line_of(const RankExited& exited) {
  const size_t end = exited.last_words.find_last_not_of(" \n\r\t");
  if (end == std::string::npos) return "";
  const size_t before = exited.last_words.rfind('\n', end),
               begin = before == std::string::npos ? 0 : before + 1;
  return exited.last_words.substr(begin, end - begin + 1);
}

std::string trace_of(const RankExited& exited) {
  constexpr size_t kLongest = 400;
  if (!exited.stack.empty()) return fmt::format("{} {}", exited.status, exited.stack).substr(0, kLongest);
  std::string text = exited.error.text;
  // The last line of a crashed process was written before the crash; a process that aborts says why.
  constexpr int64_t kAborted = kSignal + 6;
  if (text.empty() && (exited.status <= kSignal || exited.status == kAborted)) text = last_line_of(exited);
  if (text.empty())
    return exited.status > kSignal && !ended_from_outside(exited.status)
               ? fmt::format("{} without a stack", exited.status)
               : "";
  std::string trace = fmt::format("{} ", exited.status);
  for (size_t i = 0; i < text.size() && trace.size() < kLongest;) {
    if (std::isdigit(static_cast<unsigned char>(text[i])) == 0) {
      trace += text[i++];
      continue;
    }
    trace += '#';  // numbers and addresses
    while (i < text.size() &&
           (std::isxdigit(static_cast<unsigned char>(text[i])) != 0 || text[i] == 'x' || text[i] == '.'))
      ++i;
  }
  return trace;
}

}  // namespace longhaul::control
