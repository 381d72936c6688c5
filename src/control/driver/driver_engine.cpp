// DriverService: the engine that provides the run's machines, and the history of hosts over weeks. If the
// nodes are daemons of this machine there is neither.
#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "base/text/text.h"
#include "control/driver/driver_service.h"
#include "control/host_history.h"

namespace longhaul::control {
namespace {

constexpr double kAnswers_s = 0.2;
constexpr double kAskAgain_s = 10;  // until an engine without a free machine is asked again

// What an incident says about a host; nothing: the cause is the program, or a person.
std::optional<HostEvent> event_of(const std::string& fault, bool one_node) {
  const std::optional<FaultClass> kind = fault_class_named(fault);
  if (!kind) return std::nullopt;
  switch (*kind) {
    case FaultClass::kDevice:
    case FaultClass::kDeviceDegraded:
      return HostEvent::kDeviceError;
    case FaultClass::kFailedCheck:
      return HostEvent::kOutOfService;
    case FaultClass::kMachine:
    case FaultClass::kNodeDaemon:
    case FaultClass::kNetwork:
    case FaultClass::kHang:
    case FaultClass::kUnclear:
      return one_node ? HostEvent::kOneNodeFailure : HostEvent::kManyNodeFailure;
    default:
      return std::nullopt;
  }
}

}  // namespace

// Hosts that failed repeatedly are used last.
std::vector<std::string> lemons_of(const std::filesystem::path& history, double now_s) {
  if (history.empty()) return {};
  const std::vector<HostRecord> records = read_records(history);
  std::vector<std::string> hosts;
  for (const HostRecord& record : records) {
    if (std::ranges::find(hosts, record.host) == hosts.end()) hosts.push_back(record.host);
  }
  std::vector<std::string> lemons = order_of_use(std::move(hosts), records, now_s);
  std::erase_if(lemons, [&](const std::string& host) { return !lemon_score(records, host, now_s).lemon(); });
  return lemons;
}

void DriverService::begin_engine() {
  if (!options_.make_engine) return;
  desk_ = std::make_unique<EngineDesk>(options_.make_engine());
  every(kAnswers_s, "the engine", [this] {
    for (const EngineAnswer& answer : desk_->answers()) on_answer(answer);
  });
}

void DriverService::do_it(const RequestNode& command) {
  if (!desk_) return;  // there is no engine: nodes are on this machine, or were started by hand
  std::vector<std::string> exclude = command.exclude;
  for (const auto& [name, node] : core_->ledger().nodes) {
    if (node.state == "lost") continue;
    exclude.push_back(name);
    exclude.push_back(node.host);
  }
  exclude.insert(exclude.end(), brought_.begin(), brought_.end());
  ++wanted_;
  desk_->request_node(std::move(exclude));
}

// By its name in the run: the name of its daemon's place, which the engine knows (NodeOptions::name).
void DriverService::do_it(const ReleaseNode& command) {
  note_host(command.host, HostEvent::kExcluded);
  brought_.erase(command.node);
  if (desk_) desk_->release_node(command.node, command.reason);
}

void DriverService::on_answer(const EngineAnswer& answer) {
  log_line(answer.good ? LogLevel::kInfo : LogLevel::kWarning,
           fmt::format("driver: {}", printable(answer.text)));
  if (answer.to == EngineAnswer::To::kRequeue) return leave();
  if (answer.to != EngineAnswer::To::kRequest || result_) return;
  --wanted_;
  if (!answer.host) return ask_again();
  // The disk may be full, or the machine may start no more processes: the run goes on with what it has.
  try {
    start_on(*answer.host);
  } catch (const Error& error) {
    log_error("driver: no daemon was started on {}: {}", printable(*answer.host), error.what());
    brought_.erase(*answer.host);
    ask_again();
  }
}

void DriverService::ask_again() {
  loop_.after(kAskAgain_s, [this] {
    if (!result_ && wanted_ == 0 && core_->state() == State::kRendezvous) do_it(RequestNode{});
  });
}

void DriverService::start_on(const std::string& host) {
  const std::filesystem::path control = control_folder(options_.run_folder);
  const std::vector<std::string> words = desk_->words_to_start_on(
      host, {options_.program, "node", "--driver", (control / "address").string(), "--secret",
             (control / "secret").string(), "--name", host, "--slots", std::to_string(options_.slots)});
  if (words.empty()) return;  // the daemon starts by itself
  make_folders(options_.run_folder / "logs");
  brought_.insert(host);
  children_.start(
      {.argv = words,
       .log = options_.run_folder / "logs" / fmt::format("node-{}.log", host),
       .own_session = true},
      [this, host](int status) {
        brought_.erase(host);
        if (!result_)
          feed(NodeDied{
              .node = host, .reachable = false, .text = fmt::format("its daemon ended with {}", status)});
      });
}

// The engine ends a job that it wants back with SIGTERM, so the job is to be queued again. A person who types
// Ctrl-C does not want that.
bool DriverService::requeues() {
  if (!desk_ || last_signal_ != SIGTERM || result_->code != ExitCode::kPreemptedSaved) return false;
  desk_->requeue();
  return true;
}

void DriverService::note_host(const std::string& host, HostEvent event) {
  if (options_.host_history.empty() || host.empty()) return;
  try {
    append_record(options_.host_history,
                  {.time_s = wall_time_s(), .host = host, .event = event, .run = options_.plan.run});
  } catch (const Error& error) {
    log_warning("driver: {}", error.what());
  }
}

void DriverService::note_incident(const observe::IncidentReport& incident) {
  const auto node = core_->ledger().nodes.find(incident.node);
  if (node == core_->ledger().nodes.end()) return;
  if (const auto event = event_of(incident.fault, options_.plan.nodes == 1))
    note_host(node->second.host, *event);
}

void DriverService::note_end() {
  if (result_->code != ExitCode::kDone || options_.plan.nodes != 1) return;
  for (const auto& [name, node] : core_->ledger().nodes) {
    if (node.state == "active") note_host(node.host, HostEvent::kOneNodeSuccess);
  }
}

}  // namespace longhaul::control
