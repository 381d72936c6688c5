#include "control/driver/driver_service.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/machine/machine.h"
#include "base/net/secret.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "control/blocklist.h"
#include "control/node/node_daemon.h"
#include "data/corpus/skip_file.h"
#include "detect/hang/hang.h"
#include "observe/board/run_status.h"
#include "storage/catalog.h"

namespace longhaul::control {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSkipFile = "skip.json";
constexpr const char* kProbing = "looking for samples that kill";
constexpr double kStatus_s = 1;
constexpr double kCheckpoints_s = 0.5;
constexpr double kSlow_s = 5;      // a third of the silence after which a daemon looks for another driver
constexpr double kAtOnce = 10;     // what waiting for a checkpoint may cost, in restarts
constexpr double kLongWait_s = 5;  // longer than calls of training wait, shorter than the limit of any work
constexpr double kLeave_s = 10;    // for daemons of this machine to end after their release

}  // namespace

int64_t stage_of(const RunPlan& plan, int64_t rank, int64_t ranks) {
  const auto width = std::ranges::find(plan.widths, ranks, &Width::ranks);
  const auto& mesh = (width == plan.widths.end() ? plan.widths.front() : *width).mesh;
  const auto size_of = [&](const char* axis) {
    const auto found = std::ranges::find(mesh, axis, &observe::MeshAxis::name);
    return found == mesh.end() ? 1 : found->size;
  };
  return observe::stage_of_rank(rank, ranks, size_of("workers"), size_of("pp"));
}

namespace {

// If the journal of a run was lost, the last driver's status may still give the generation; 0: nothing does.
int64_t generations_told_by(const fs::path& status) {
  if (!fs::exists(status)) return 0;
  try {
    const auto told = nlohmann::json::parse(read_text(status), nullptr, /*allow_exceptions=*/false);
    int64_t newest = 0;
    for (const char* key : {"generation", "newest_generation"}) {
      if (told.is_object() && told.contains(key) && told.at(key).is_number_integer())
        newest = std::max(newest, told.at(key).get<int64_t>());
    }
    return newest;
  } catch (const Error& error) {
    log_warning("driver: {}", error.what());  // nodes may report it too
    return 0;
  }
}

// The samples that the driver skips for good.
std::vector<data::SampleRange> skipped_for_good(const fs::path& run_folder) {
  std::vector<data::SkipEntry> skips = data::read_skips(data::skip_file(run_folder));
  std::erase_if(skips,
                [](const data::SkipEntry& one) { return one.by != "driver" || one.reason == kProbing; });
  return data::ranges_of(skips);
}

}  // namespace

std::string job_name(const fs::path& run_folder, const std::string& secret) {
  const std::string name = fs::absolute(run_folder).lexically_normal().filename().string();
  return fmt::format("{}-{}", name.empty() ? "run" : name,
                     sha256_hex("name of the job" + secret).substr(0, 8));
}

DriverService::DriverService(DriverOptions options)
    : options_(std::move(options)),
      slow_([this](int64_t rank, int64_t ranks) { return stage_of(options_.plan, rank, ranks); }),
      display_(options_.run_folder, options_.log_every),
      children_(loop_) {
  options_.run_folder = fs::absolute(options_.run_folder);
  const fs::path control = control_folder(options_.run_folder);
  make_folders(control);
  fs::permissions(control, fs::perms::owner_all);
  lock_ = std::make_unique<FileLock>(control / "driver");
  keys_ = driver_keys(control);
  options_.plan.run = job_name(options_.run_folder, keys_.of_nodes);
  options_.plan.used_last = lemons_of(options_.host_history, wall_time_s());
  journal_ = std::make_unique<JournalFile>(control / "journal.jsonl");
  std::vector<JournalEntry> entries = journal_->take_entries();
  started_wall_s_ = wall_time_s();
  // A clock that was set back while no driver ran must not make the journal go back.
  const double begin_s = entries.empty() ? started_wall_s_ : std::max(started_wall_s_, entries.back().at_s);
  wall_offset_s_ = begin_s - static_cast<double>(monotonic_ns()) * 1e-9;
  options_.plan.begun = generations_told_by(control / "status.json");
  if (entries.empty()) options_.plan.skipped = skipped_for_good(options_.run_folder);
  core_ = std::make_unique<DriverCore>(options_.plan, options_.policy, std::move(entries));
  make_folders(options_.run_folder / "events");
  events_ = std::make_unique<observe::EventWriter>(observe::EventWriterOptions{
      .path = options_.run_folder / "events" / "driver-0.jsonl", .run = options_.plan.run});
}

DriverService::~DriverService() = default;

double DriverService::now_s() const { return wall_offset_s_ + static_cast<double>(monotonic_ns()) * 1e-9; }

DriverResult DriverService::run() {
  listening_ = Socket::listen(options_.listen.empty() ? Endpoint{"127.0.0.1", 0}
                                                      : parse_endpoint(options_.listen, "--listen"));
  const std::string host =
      options_.listen.empty() ? "127.0.0.1" : parse_endpoint(options_.listen, "--listen").host;
  write_text_atomically(control_folder(options_.run_folder) / "address",
                        Endpoint{host, listening_.port()}.text() + "\n");
  if (!options_.listen.empty()) {
    log_info("nodes connect to {}: copy {} to each, and there: {}", Endpoint{host, listening_.port()}.text(),
             (control_folder(options_.run_folder) / "secret").string(),
             program_command(fmt::format("node --driver {} --secret secret --slots {}",
                                         Endpoint{host, listening_.port()}.text(), options_.slots)));
  }
  loop_.watch(listening_.descriptor(), {.reads = true}, [this](Ready) { accept(); });
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    loop_.on_signal(signal, [this, signal] { on_stop_signal(signal); });
  // The error of the failing write is enough.
  for (const int signal : {SIGPIPE, SIGXFSZ}) loop_.on_signal(signal, [] {});
  loop_.on_signal(SIGUSR1, [this] {
    for (const auto& [node, pid] : pids_) Children::signal(static_cast<pid_t>(pid), SIGUSR1);
  });
  loop_.every(kStatus_s, [this] { write_status(); });
  every(kStatus_s, "files that wait", [this] { write_what_waits(); });
  every(kCheckpoints_s, "looking for checkpoints", [this] { look_for_checkpoints(); });
  every(kCheckpoints_s, "showing steps", [this] { display_.poll(!rank_0_speaks_here()); });
  every(kSlow_s, "looking for slow ranks", [this] { look_for_slow(); });
  loop_.every(kSlow_s, [this] {
    std::vector<std::string> nodes;  // sending may end a connection
    for (const auto& [number, connection] : connections_) {
      if (!connection.node.empty()) nodes.push_back(connection.node);
    }
    for (const std::string& node : nodes) send(node, StillHere{});
  });
  for (int64_t node = 0; node < options_.local_nodes; ++node) {
    const std::string name = fmt::format("node-{}", node);
    local_[name] = 0;
    if (!node_lives(options_.plan.run, name)) start_local(name);
  }
  begin_engine();
  begin_minder();
  feed(Tick{});
  try {
    loop_.run();
  } catch (...) {
    children_.forget_all();  // ranks go on without a driver, until the same command is started again
    throw;
  }
  journal_->flush();  // writes what waited for space, for the last time
  files_.again();
  write_status();
  LONGHAUL_ASSERT(result_.has_value(), "the driver ended without a result");
  return *result_;
}

void DriverService::feed(const Input& input) {
  if (result_) return;
  const int64_t before = core_->generation();
  apply(core_->on(input, now_s()));
  after_feeding(before);
}

void DriverService::after_feeding(int64_t generation_before) {
  if (core_->generation() != generation_before) {
    settled_ = true;
    renew_keys();
  }
  arm();
  const std::string key = fmt::format("{} {}", name_of(core_->state()), core_->generation());
  if (std::exchange(last_status_key_, key) != key) write_status();
}

void DriverService::arm() {
  loop_.cancel(tick_timer_);
  if (result_) return;
  const double now = now_s();
  tick_timer_ = loop_.after(std::clamp(core_->next_tick_s(now) - now, 0.001, 1.0), [this] {
    flush_journal();
    feed(Tick{});
  });
}

// The consequences of entries are carried out after the entries are on disk, and all of them are carried out,
// even if one fails: the core counts them as done.
void DriverService::apply(const Commands& commands) {
  for (const Command& command : commands) {
    if (const auto* entry = std::get_if<WriteJournal>(&command)) do_it(*entry);
  }
  flush_journal();
  for (const Command& command : commands) {
    if (!std::holds_alternative<WriteJournal>(command)) carry_out(command);
  }
}

void DriverService::carry_out(const Command& command) {
  try {
    std::visit([this](const auto& one) { do_it(one); }, command);
  } catch (const Error& error) {
    log_error("driver: {}", error.what());
  }
}

void DriverService::every(double seconds, const std::string& what, std::function<void()> handler) {
  loop_.every(seconds, [this, what, handler = std::move(handler)] {
    try {
      handler();
      if (problems_.erase(what) > 0) log_info("driver: {} works again", what);
    } catch (const Error& error) {
      if (std::string& said = problems_[what]; said != error.what())
        log_error("driver: {}: {}", what, said = error.what());
    }
  });
}

void DriverService::flush_journal() {
  journal_->flush();
  if (std::exchange(journal_problem_, journal_->problem()) == journal_->problem()) return;
  if (!journal_problem_.empty()) log_error("the journal waits in memory: {}", journal_problem_);
  loop_.after(0, [this] { feed(JournalProblem{journal_problem_}); });
}

void DriverService::do_it(const ToNode& command) {
  DriverMessage message = command.message;
  if (auto* welcome = std::get_if<Welcome>(&message)) {
    welcome->command = options_.command;
    const auto local = local_.find(command.node);
    welcome->command.terminal = local != local_.end() && local->second != 0;
  }
  // Ranks read at their start which samples to skip.
  if (std::holds_alternative<StartRanks>(message) && files_.waits(kSkipFile)) return held_.push_back(command);
  if (const auto* stop = std::get_if<StopRanks>(&message)) forget_held_starts(command.node, stop->generation);
  send(command.node, message);
}

void DriverService::write_what_waits() {
  files_.again();
  if (files_.waits(kSkipFile)) return;
  for (const ToNode& start : std::exchange(held_, {})) send(start.node, start.message);
}

// Ranks that were never started have ended.
void DriverService::forget_held_starts(const std::string& node, int64_t generation) {
  std::erase_if(held_, [&](const ToNode& held) {
    const auto& start = std::get<StartRanks>(held.message);
    if (held.node != node || start.generation > generation) return false;
    for (const int64_t rank : start.ranks) {
      const RankExited ended{
          .rank = rank, .generation = start.generation, .status = 128 + SIGKILL, .stopped = true};
      loop_.after(0, [this, node, ended] { feed(FromNode{node, ended}); });
    }
    return true;
  });
}

void DriverService::do_it(const Refuse& command) {
  const auto connection = connections_.find(greeting_);
  if (connection == connections_.end()) return;
  log_warning("{} is refused: {}", command.node, command.reason);
  connection->second.channel->send(
      to_text(DriverMessage{Release{.reason = command.reason, .evicted = true}}));
  close_connection(greeting_);
}

void DriverService::do_it(const CloseConnection& command) {
  for (const auto& [number, connection] : connections_) {
    if (connection.node == command.node) return close_connection(number);
  }
}

void DriverService::do_it(const WriteJournal& command) { journal_->append(command.entry); }

void DriverService::do_it(const WriteSkip& command) {
  std::vector<data::SkipEntry> entries;
  for (const data::SampleRange& range : command.ranges)
    entries.push_back({.range = range, .reason = command.reason, .by = "driver"});
  if (command.probe) entries.push_back({.range = *command.probe, .reason = kProbing, .by = "driver"});
  files_.write(kSkipFile, [file = data::skip_file(options_.run_folder), entries] {
    data::set_skips(file, "driver", entries);
  });
}

void DriverService::do_it(const WriteBlocked& command) {
  Blocklist list;
  for (const Blocked& one : command.blocked) {
    list.block({.host = one.host,
                .boot_id = one.boot_id,
                .node = one.node,
                .reason = one.reason,
                .generation = one.generation,
                .since_s = now_s(),
                .until_s = one.until_s});
  }
  files_.write("blocked.json",
               [list, file = control_folder(options_.run_folder) / "blocked.json"] { list.write(file); });
}

void DriverService::do_it(const Emit& command) {
  events_->write(command.body);
  if (const auto* incident = std::get_if<observe::IncidentReport>(&command.body)) note_incident(*incident);
}

void DriverService::do_it(const StartNode& command) {
  if (is_local(command.node)) start_local(command.node);
}

// What the nodes have reported of their ranks, analysed as if all were on one machine.
void DriverService::do_it(const AnalyseHang& command) {
  HangFound found{.generation = command.generation};
  std::vector<detect::HangRank> ranks;
  for (const auto& [rank, one] : evidence_[command.generation]) {
    if (one.calls.empty()) continue;
    try {
      ranks.push_back(detect::hang_rank_from(one.calls, fmt::format("evidence of rank {}", rank)));
    } catch (const Error& error) {
      log_warning("driver: {}", printable(error.what()));
    }
  }
  const detect::HangReport report = detect::analyse_hang(ranks);
  // A process that does not run explains what does not end, of its own and of those that wait for it.
  found.stopped = report.kind == detect::HangKind::kFrozen;
  if (!command.work.empty() && !found.stopped) {
    found.suspects = detect::waited_for_long(report, kLongWait_s);
    found.text = detect::standing_text(report, ranks, found.suspects.empty() ? command.at_it : found.suspects,
                                       kLongWait_s);
  } else {
    for (const detect::HangSuspect& suspect : report.suspects) found.suspects.push_back(suspect.rank);
    found.program = report.kind == detect::HangKind::kDisagrees || report.kind == detect::HangKind::kDeadlock;
    found.text = report.text();
  }
  evidence_.clear();
  loop_.after(0, [this, found] { feed(found); });
}

void DriverService::do_it(const Reply& command) {
  if (asking_) asking_->send(to_text(command.answer));
}

void DriverService::do_it(const Say& command) { log_info("driver: {}", command.text); }

void DriverService::do_it(const Finish& command) {
  result_ =
      DriverResult{.code = command.code, .text = command.text, .rank = command.rank, .stopped = stops_ > 0};
  note_end();
  if (!requeues()) {  // otherwise the engine's answer ends this process, or the engine does
    loop_.every(0.02, [this] {
      if (children_.running() == 0) leave();
    });
    loop_.after(kLeave_s, [this] { leave(); });
  }
  display_.poll(!rank_0_speaks_here());
  result_->showed = display_.has_shown() && !rank_0_speaks_here();
}

void DriverService::leave() { loop_.stop(); }

void DriverService::on_stop_signal(int signal) {
  ++stops_;
  last_signal_ = signal;
  if (signal == SIGINT && stops_ > 1) return feed(Abort{"a second Ctrl-C"});
  if (stops_ == 1) feed(Drain{fmt::format("signal {}", signal)});
}

nlohmann::ordered_json DriverService::status_json() const {
  nlohmann::ordered_json status = core_->status(now_s());
  status["updated_wall_time"] = wall_time_s();
  status["driver"] = {{"pid", process_id()},
                      {"host", machine().host},
                      {"address", fmt::format("127.0.0.1:{}", listening_.port())}};
  return status;
}

void DriverService::write_status() {
  try {
    write_text_atomically(control_folder(options_.run_folder) / "status.json",
                          status_json().dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    status_problem_.clear();
  } catch (const Error& error) {
    if (std::exchange(status_problem_, error.what()).empty()) log_error("driver: {}", error.what());
  }
}

void DriverService::look_for_checkpoints() {
  const fs::path folder = options_.run_folder / "checkpoints";
  std::error_code none;
  const auto changed = fs::last_write_time(folder, none);
  const double changed_s = none ? 0 : std::chrono::duration<double>(changed.time_since_epoch()).count();
  if (none || checkpoints_changed_s_ == changed_s) return;
  int64_t newest = -1;
  for (const storage::CheckpointSummary& one :
       storage::list_checkpoints(storage::local_file_system(), folder)) {
    if (one.usable()) newest = std::max(newest, one.name.step);
  }
  checkpoints_changed_s_ = changed_s;
  if (newest > committed_) feed(Committed{committed_ = newest});
}

// A daemon that this process has started uses its terminal.
bool DriverService::rank_0_speaks_here() const {
  const auto& placement = core_->ledger().placement;
  const auto first = std::ranges::find_if(
      placement, [](const NodeRanks& node) { return std::ranges::find(node.ranks, 0) != node.ranks.end(); });
  if (first == placement.end()) return true;  // nothing is to be shown yet
  const auto local = local_.find(first->node);
  return local != local_.end() && local->second != 0;
}

void DriverService::look_for_slow() {
  // A restart costs as much as this generation's start did; one that does not wait for a checkpoint costs
  // steps in addition.
  const Ledger& ledger = core_->ledger();
  const double restart_s = std::max(1.0, ledger.resumed_s - ledger.generation_since_s);
  for (const SlowRank& slow : slow_.look()) {
    if (slow.first) {
      log_warning("driver: {} ({})", slow.text, slow.node);
      events_->write(
          observe::Alarm{.kind = "straggler", .message = fmt::format("{}: {}", slow.node, slow.text)});
    }
    if (!options_.replace_slow) continue;
    const detect::Remedy remedy = detect::remedy_for(
        slow.lost_s, {.replace_at_checkpoint_s = restart_s, .replace_now_s = kAtOnce * restart_s});
    if (remedy == detect::Remedy::kIgnore) continue;
    const std::string kind = remedy == detect::Remedy::kReplaceNow ? "slow_now" : "slow";
    feed(Suspected{.report = {.kind = kind,
                              .rank = slow.rank,
                              .text = fmt::format("{}: {:.0f} s lost", slow.text, slow.lost_s)},
                   .node = slow.node});
  }
}

}  // namespace longhaul::control
