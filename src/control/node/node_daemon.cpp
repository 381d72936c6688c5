#include "control/node/node_daemon.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "base/clock.h"
#include "base/log.h"
#include "base/machine/machine.h"
#include "base/net/network.h"
#include "base/net/secret.h"
#include "base/process/process.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "base/version.h"
#include "control/checks/self_check.h"
#include "control/node/lease.h"
#include "control/node/node_memory.h"
#include "control/wire/placement.h"
#include "detect/samples/run_samples.h"

namespace longhaul::control {
namespace {

namespace fs = std::filesystem;

constexpr double kRetry_s = 0.5;      // between two attempts to reach the driver
constexpr double kNews_s = 0.1;       // how often boards are read between heartbeats
constexpr double kStackWait_s = 0.5;  // for threads to answer SIGUSR2
// Those that take seconds, before the first ranks of each start.
constexpr std::array kQuickChecks = {"versions", "network", "disk", "gpu"};
constexpr double kUnkillable_s = 5;     // for killed ranks to be gone, before what they use is taken away
constexpr double kAbandoned_s = 86400;  // after this time the remains of runs in memory are removed
constexpr double kEndGrace_s = 60;      // for ranks to save, when the daemon was asked to end

// Checks whose bits must equal those of most nodes. Versions of drivers and libraries differ while a cluster
// is being updated, and are no fault of a node.
bool computes(const std::string& check) { return check == "product" || check == "alignment"; }

Endpoint driver_endpoint(const std::string& driver) {
  if (driver.find('/') == std::string::npos) return parse_endpoint(driver, "--driver");
  std::string text = read_text(driver);
  while (text.ends_with('\n')) text.pop_back();
  return parse_endpoint(text, driver);
}

}  // namespace

struct NodeDaemon::Asked {
  std::vector<Evidence> evidence;
  std::atomic<bool> ready = false;  // set when its contents are complete
};

NodeDaemon::NodeDaemon(NodeOptions options)
    : options_(std::move(options)), children_(loop_), alone_since_ns_(monotonic_ns()) {
  if (options_.name.empty()) options_.name = read_node_name(options_.secret);
  // The engine's name of this machine, so that it can be asked for a replacement.
  if (options_.name.empty()) options_.name = variable("SLURMD_NODENAME").value_or(machine().host);
  keys_ = node_keys(options_.secret, options_.name);
}

NodeDaemon::~NodeDaemon() = default;

ExitCode NodeDaemon::run() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    loop_.on_signal(signal, [this, signal] { on_request_to_stop(signal); });
  // The error of the failing write is enough.
  for (const int signal : {SIGPIPE, SIGXFSZ}) loop_.on_signal(signal, [] {});
  loop_.on_signal(SIGUSR1, [this] {
    if (host_) host_->signal_all(SIGUSR1);
  });
  loop_.after(0, [this] { connect(); });
  loop_.every(kNews_s, [this] { look_for_news(); });
  loop_.run();
  if (host_) host_->end_all();
  sampler_.reset();
  watch_.reset();
  return code_;
}

void NodeDaemon::connect() {
  const bool file = options_.driver.find('/') != std::string::npos;
  // A file system that cannot be asked at the moment says nothing about the folder.
  std::error_code problem;
  if (file && !fs::exists(fs::path(options_.driver).parent_path(), problem) && !problem)
    return end(ExitCode::kDone, "the run's folder is gone");
  if (static_cast<double>(monotonic_ns() - alone_since_ns_) * 1e-9 > options_.patience_s)
    return end(ExitCode::kCommunication, fmt::format("no driver for {}", duration_text(options_.patience_s)));
  try {
    const uint64_t generation = host_ ? static_cast<uint64_t>(host_->generation()) : 0;
    channel_ =
        Channel::make(loop_, Socket::connect(driver_endpoint(options_.driver)),
                      Handshake(keys_, own_identity("node", options_.name, run_, generation), false),
                      {.opened = [this](const Identity&) { on_open(); },
                       .message = [this](std::string_view message) { on_message(std::string(message)); },
                       .closed = [this](const Channel::Closing& closing) { on_closed(closing); }});
  } catch (const Error& error) {
    if (!file && error.code() == ExitCode::kUsage) throw;
    on_closed({.reason = error.what()});
  }
}

void NodeDaemon::on_closed(const Channel::Closing& closing) {
  channel_.reset();
  loop_.cancel(beat_timer_);
  if (closing.was_open) alone_since_ns_ = monotonic_ns();
  // A daemon without ranks ends with the reason; others keep looking for the driver, because a stranger at
  // the driver's address could send the same message.
  if (closing.refused && (closing.refused->proven || !host_ || !host_->any_running())) {
    log_error("{}: the driver at {} refused this node: {}", options_.name, options_.driver, closing.reason);
    return end(closing.refused->code, closing.reason);
  }
  if (closing.reason != last_reason_ && (closing.was_open || closing.refused))
    log_warning("{}: lost the driver: {}", options_.name, printable(closing.reason));
  last_reason_ = closing.reason;
  loop_.after(kRetry_s, [this] { connect(); });
}

void NodeDaemon::on_open() {
  own_address_ = channel_->own_address();
  keys_.driver = channel_->driver_key();  // from now on no other key is accepted
  if (!host_) make_host(channel_->peer().job);
  last_reason_.clear();
  send(NodeHello{.version = build_version().version,
                 .run = run_,
                 .node = options_.name,
                 .host = machine().host,
                 .boot_id = machine().boot,
                 .address = own_address_,
                 .pid = process_id(),
                 .slots = options_.slots,
                 .spare = options_.spare,
                 .free_port = port_for_ranks(),
                 .generation = host_->generation(),
                 .running = host_->running(),
                 .ended = host_->ended()});
}

void NodeDaemon::make_host(const std::string& run) {
  run_ = run;
  const fs::path folder = node_folder(run, options_.name);
  make_folders(folder);
  fs::permissions(folder.parent_path(), fs::perms::owner_all);
  // a second daemon of this name ends here
  lock_ = std::make_unique<FileLock>(node_lock(run, options_.name));
  for (const fs::path& gone : forget_abandoned_runs(kAbandoned_s)) {
    log_info("{}: {} was a run's that nobody went on with for a day: its memory is free again", options_.name,
             gone.string());
  }
  host_ = std::make_unique<RankHost>(loop_, children_,
                                     RankHostOptions{.node = options_.name,
                                                     .folder = folder,
                                                     .program = options_.program,
                                                     .root = options_.machine_root.folder},
                                     [this](const RankExited& exited) {
                                       send(exited);
                                       beat();
                                     });
}

// A port that was free a moment ago is better than none: if no more files may be open the ranks go on.
int64_t NodeDaemon::port_for_ranks() {
  try {
    port_ = free_port();
  } catch (const Error& error) {
    log_line(LogLevel::kDebug, fmt::format("{}: {}", options_.name, error.what()));
  }
  return port_;
}

void NodeDaemon::send(const NodeMessage& message) {
  if (channel_) channel_->send(to_text(message));
}

void NodeDaemon::beat() {
  if (!channel_ || !channel_->is_open() || !host_) return;
  send(NodeBeat{.generation = host_->generation(),
                .free_port = port_for_ranks(),
                .running = host_->running(),
                .ended = host_->ended(),
                .machine = sampler_ ? sampler_->last() : std::map<std::string, double>()});
}

void NodeDaemon::look_for_news() {
  if (!host_) return;
  host_->renew_lease();
  if (sampler_) sampler_->ranks_run(host_->processes());
  if (watch_) watch_->ranks_run(host_->processes(), host_->logs());
  if (host_->moved()) beat();
  if (watch_ && channel_ && channel_->is_open()) {
    for (const HealthReport& report : watch_->reports()) send(report);
  }
  send_evidence();
  const double alone_s = static_cast<double>(monotonic_ns() - alone_since_ns_) * 1e-9;
  if ((channel_ && channel_->is_open()) || alone_s < lease_s_ ||
      !lease_is_over(host_->running(), alone_s, lease_s_))
    return;
  log_warning("{}: no driver for {}, and the ranks stand: they are ended", options_.name,
              duration_text(alone_s));
  host_->end_all();
}

void NodeDaemon::on_message(const std::string& text) {
  try {
    std::visit([this](const auto& message) { take(message); }, driver_message(text, "the driver"));
  } catch (const Error& error) {
    log_error("{}: {}", options_.name, error.what());
    if (channel_) channel_->close();
    on_closed({.reason = error.fields().what, .was_open = true});
  }
}

void NodeDaemon::take(const Welcome& message) {
  host_->set_command(message.command);
  run_folder_ = message.command.run_folder;
  if (!sampler_ && !message.command.run_folder.empty()) {
    sampler_ = std::make_unique<NodeSampler>(
        NodeSamplerOptions{.folder = detect::samples_folder(message.command.run_folder),
                           .owner = {.node = options_.name,
                                     .host = machine().host,
                                     .boot = machine().boot,
                                     .ranks_alone = options_.shares_machine},
                           .files = {.proc = options_.machine_root.folder / "proc",
                                     .sys = options_.machine_root.folder / "sys"}});
  }
  if (!watch_ && !message.command.run_folder.empty()) {
    const bool own = options_.machine_root.folder != MachineRoot().folder;
    watch_ =
        std::make_unique<MachineWatch>(MachineWatchOptions{.node = options_.name,
                                                           .run_folder = message.command.run_folder,
                                                           .root = options_.machine_root,
                                                           .whole_machine = own || !options_.shares_machine});
  }
  if (message.generation > host_->generation()) host_->end_all();  // ranks that the driver no longer knows
  beat_every_s_ = message.beat_every_s;
  lease_s_ = message.lease_s;
  loop_.cancel(beat_timer_);
  beat_timer_ = loop_.every(beat_every_s_, [this] { beat(); });
}

void NodeDaemon::take(const RenewKeys& message) {
  const std::string label = std::to_string(message.generation);
  channel_->renew_receiving(label);
  send(KeysRenewed{message.generation});
  channel_->renew_sending(label);
}

void NodeDaemon::take(const StartRanks& message) { host_->start(message); }
void NodeDaemon::take(const StopRanks& message) { host_->stop(message); }

void NodeDaemon::take(const GatherEvidence& message) {
  if (message.generation != host_->generation()) return;
  host_->ask_for_stacks();
  loop_.after(kStackWait_s, [this, generation = message.generation] {
    if (generation != host_->generation()) return;
    asked_ = std::make_shared<Asked>();
    words_.post([asked = asked_, words = host_->evidence(), generation] {
      asked->evidence = words();
      if (asked->evidence.empty()) asked->evidence.push_back({.generation = generation, .rank = -1});
      asked->evidence.back().last = true;
      asked->ready = true;
    });
  });
}

void NodeDaemon::send_evidence() {
  if (!asked_ || !asked_->ready) return;
  const std::shared_ptr<Asked> told = std::exchange(asked_, nullptr);
  for (const Evidence& one : told->evidence) send(one);
}

// Run as a separate program, so that a check that hangs or crashes is a failed check. Each machine is checked
// separately.
void NodeDaemon::take(const RunChecks& message) {
  const fs::path output = node_folder(run_, options_.name) / "checks";
  std::error_code none;
  const fs::path disk = fs::exists(run_folder_, none) ? run_folder_ : fs::path(".");
  std::vector<std::string> words = {options_.program, "diagnose", "--json", "--folder", disk.string()};
  // The free space of a shared disk is no node's fault, and StorageSensor reports it.
  words.insert(words.end(), {"--limit", "disk_free_bytes=0"});
  if (message.suite == "stop_time") {
    words.push_back("--deep");
  } else {
    for (const char* check : kQuickChecks) words.insert(words.end(), {"--check", check});
    words.insert(words.end(), {"--limit", "disk_bytes=16777216"});
  }
  const pid_t pid =
      children_.start({.argv = words,
                       // this machine only, whatever engine started it
                       .environment = {"RANK=", "WORLD_SIZE=", "SLURM_STEP_ID=", "PET_NODE_RANK="},
                       .log = output,
                       .truncates_log = true,
                       .death_signal = SIGKILL},
                      [this, id = message.id, suite = message.suite, output](int status) {
                        finish_checks(id, suite, output, status);
                      });
  loop_.after(message.limit_s, [pid] { Children::signal(pid, SIGKILL); });
}

void NodeDaemon::finish_checks(int64_t id, const std::string& suite, const fs::path& output, int status) {
  CheckResults results{.id = id, .suite = suite};
  try {
    const std::string said = read_text(output);
    const size_t begin = said.find('{');  // warnings may precede it
    constexpr JsonRules kRules{.code = ExitCode::kCommunication, .what = "a diagnosis that cannot be read"};
    const auto report = SelfCheckReport::from_json(
        parse_json(begin == std::string::npos ? said : said.substr(begin), output.string(), kRules),
        output.string());
    for (const CheckFinding& one : report.results) {
      results.checks.push_back({.name = one.name,
                                .passed = one.status != CheckStatus::kFailed,
                                .text = one.found,
                                .signature = computes(one.name) ? one.signature() : ""});
    }
  } catch (const std::exception& error) {
    results.checks.push_back({.name = "checks",
                              .passed = false,
                              .text = fmt::format("ended with {} and no result: {}", status, error.what())});
  }
  send(results);
}

void NodeDaemon::take(const Release& message) {
  log_line(message.evicted ? LogLevel::kWarning : LogLevel::kDebug,
           fmt::format("{}: released: {}", options_.name, printable(message.reason)));
  if (!host_->ending()) {
    host_->stop({.generation = host_->generation(), .reason = message.reason});
    loop_.after(kUnkillable_s, [this, step = message.committed_step] { leave(step); });
  }
  loop_.every(kNews_s, [this, step = message.committed_step] {  // their time runs out in RankHost
    if (!host_->any_running()) leave(step);
  });
}

void NodeDaemon::leave(int64_t committed_step) {
  end(ExitCode::kDone, release_memory(run_, options_.name, committed_step));
}

void NodeDaemon::on_request_to_stop(int signal) {
  if (!host_ || !host_->any_running() || code_ != ExitCode::kDone)
    return end(ExitCode::kPreemptedNotSaved, fmt::format("signal {}", signal));
  code_ = ExitCode::kPreemptedSaved;
  log_warning("{}: signal {}: ranks are asked to save", options_.name, signal);
  host_->stop({.generation = host_->generation(),
               .grace_s = kEndGrace_s,
               .save = true,
               .reason = "the node was asked to stop"});
  loop_.every(kNews_s, [this] {
    if (!host_->any_running()) end(ExitCode::kPreemptedSaved, "");
  });
}

void NodeDaemon::end(ExitCode code, const std::string& why) {
  if (!why.empty()) log_warning("{}: ends: {}", options_.name, printable(why));
  code_ = code;
  if (channel_) channel_->close();
  loop_.stop();
}

}  // namespace longhaul::control
