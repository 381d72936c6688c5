// The messages between the driver, the node daemons and the command line, as structs and as JSON (one object
// a frame; "type" names the struct).
//
//   node → driver      NodeHello, NodeBeat, RankExited, HealthReport, CheckResults, Evidence
//   driver → node      Welcome, StartRanks, StopRanks, RunChecks, GatherEvidence, Release, StillHere,
//                      RenewKeys
//   client → driver    StatusRequest, EvictRequest, DrainRequest          driver → client   Answer
//
// Clocks of different machines are never compared: the sender gives the age of an event in seconds. Seconds
// are doubles, and a NaN loss is sent as the text "nan". Everything that belongs to one start of the ranks
// carries its generation; a receiver ignores a generation older than its own. Frames, their limits and the
// permissions of roles: control/wire/frame.h, control/wire/authentication.h. Source:
// docs/sources/reliability.md §5.2, §9.2.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "observe/board/task_phase_state.h"
#include "observe/events/event.h"

namespace longhaul::control {

inline constexpr int64_t kProtocolVersion = 1;

// CollectiveBeat: the last collective operation that a rank began.
struct CollectiveBeat {
  // "world/dp 0", "loss", "all_reduce", "scheduled" | "started" | "completed"; all empty: none yet.
  std::string group, name, kind, state;
  int64_t sequence = 0;  // in its group
  bool operator==(const CollectiveBeat&) const = default;
  static constexpr auto fields();
};

struct RankError {
  int64_t code = 0;          // the exit code with which the rank will end; 0: none
  std::string text;          // at most 4 KiB
  bool consequence = false;  // the rank itself says that another rank's failure was the reason
  double age_s = -1;         // seconds since it failed; -1: unknown
  bool operator==(const RankError&) const = default;
  static constexpr auto fields();
};

// BackgroundBeat: work of a rank's background threads for which the rank may have to wait
// (base/threads/background_work.h).
struct BackgroundBeat {
  std::string name;
  double age_s = 0;
  double allowed_s = 0;  // limit while none of its kind was seen to end
  bool operator==(const BackgroundBeat&) const = default;
  static constexpr auto fields();
};

// RankBeat: what one rank does, from its board (observe/board/rank_board.h). The daemon of its node converts
// the board's times to ages.
struct RankBeat {
  int64_t rank = 0, generation = 0, pid = 0;
  double beat_age_s = 0;  // since its beat thread last ran: large in a process that is stopped
  // Since step, micro-step or collective changed: a process that lives may still make no progress.
  double progress_age_s = 0;
  // Completed optimizer steps, including those before the loaded checkpoint; -1: unknown (loading).
  int64_t step = 0;
  int64_t resumed_step = -1;  // step of the loaded checkpoint; 0: from the beginning; -1: unknown (yet)
  int64_t micro_step = 0;
  // One of: start, load, data, forward, backward, communication, optimizer, checkpoint, evaluation, task,
  // idle.
  std::string phase = "start";
  double phase_age_s = 0;
  observe::TaskPhaseState task_phase;
  CollectiveBeat collective;
  double loss = 0, gradient_norm = 0;
  int64_t tokens = 0, resident_bytes = 0;
  int64_t device_bytes = 0;        // of tensors on its device
  double step_seconds = 0;         // of the last step
  observe::Metrics phase_seconds;  // of the last step, by phase
  std::vector<BackgroundBeat> background;
  RankError error;
  bool in_task() const { return phase == "task"; }
  bool operator==(const RankBeat&) const = default;
  static constexpr auto fields();
};

struct RankExited {
  int64_t rank = 0, generation = 0, pid = 0;
  int64_t status = 0;  // exit code, or 128 + signal
  double age_s = 0;    // seconds since it ended, when this was sent
  // the daemon had sent it a signal before, so the status says nothing about the rank
  bool stopped = false;
  bool out_of_memory = false;  // killed by the kernel's OOM killer, or for a limit of its cgroup
  int64_t step = -1;           // completed steps, from its board; -1: unknown
  RankError error;             // from its board
  std::string last_words;      // the end of its log, at most 4 KiB
  std::string stack;           // where it was when it crashed, one frame a line, if it could report it
  bool operator==(const RankExited&) const = default;
  static constexpr auto fields();
};

// NodeHello: the first message of a daemon on each connection. A restarted driver also learns from it about
// the ranks that went on.
struct NodeHello {
  int64_t protocol = kProtocolVersion;
  std::string version;                 // version of Longhaul; all nodes of a run have the same
  std::string run;                     // name of the run for which the secret was made
  std::string node;                    // its name in the run: "node-0"
  std::string host, boot_id, address;  // address: where ranks of other nodes reach this one
  int64_t pid = 0;
  int64_t slots = 1;       // number of ranks that it can hold
  bool spare = false;      // it waits until it is needed
  int64_t free_port = 0;   // for the ranks' rendezvous, if rank 0 is placed here
  int64_t generation = 0;  // the newest that it has seen
  std::vector<RankBeat> running;
  std::vector<RankExited> ended;  // those of that generation
  bool operator==(const NodeHello&) const = default;
  static constexpr auto fields();
};

// NodeBeat: sent every second, and immediately when something has changed.
struct NodeBeat {
  int64_t generation = 0;
  int64_t free_port = 0;
  std::vector<RankBeat> running;
  // All of this generation in every message, so that none is lost with a connection.
  std::vector<RankExited> ended;
  // The last sample of the machine by the names of detect/samples/metrics.h, in their units; empty: none yet.
  std::map<std::string, double> machine{};
  bool operator==(const NodeBeat&) const = default;
  static constexpr auto fields();
};

// HealthReport: an observation of the daemon about its machine, or of a detector about a rank or node
// (stragglers, Minder).
struct HealthReport {
  // From the daemon of the machine (sensors.h): "xid", "device_missing", "device_broken", "device_degraded",
  // "network", "degraded_link", "throttled", "storage", "log". From detectors that compare nodes: "slow",
  // "slow_now".
  std::string kind;
  int64_t code = 0;    // of "xid": its number; of "storage": errno
  int64_t rank = -1;   // -1: the node as a whole
  std::string device;  // "GPU-5c1e…", "eth0", "/scratch"
  std::string text;    // for a person
  bool operator==(const HealthReport&) const = default;
  static constexpr auto fields();
};

struct CheckResult {
  std::string name;  // "gemm_checksum"
  bool passed = true;
  double measured = 0, limit = 0;  // in `unit`; both 0: the check measures nothing
  std::string unit, text;
  // A hash of bits that must be equal on all nodes ("": nothing to compare); nodes in the minority have
  // failed.
  std::string signature;
  bool operator==(const CheckResult&) const = default;
  static constexpr auto fields();
};

struct CheckResults {
  int64_t id = 0;     // id of the RunChecks message
  std::string suite;  // name of the suite
  std::vector<CheckResult> checks;
  bool operator==(const CheckResults&) const = default;
  static constexpr auto fields();
};

// Evidence about one rank that hangs. DriverService passes all of it to the hang analysis.
struct Evidence {
  int64_t generation = 0, rank = 0;
  std::string calls;    // its flight recorder as JSON
  std::string stacks;   // stacks of its threads
  std::string process;  // state and wait channel from /proc
  bool last = false;    // this node has sent all that it has
  bool operator==(const Evidence&) const = default;
  static constexpr auto fields();
};

// RunCommand: how a rank of this run is started. DriverService puts it into the core's Welcome.
struct RunCommand {
  std::vector<std::string> words;    // "train", the recipe, overrides; those of a width follow
  std::vector<std::string> options;  // "--run" and the options that follow it
  // NAME=VALUE, in addition to what ranks inherit (control/node/rank_environment.h).
  std::vector<std::string> environment;
  // the options typed after `launch`, for the commands that ranks suggest to type next
  std::string launched;
  std::string folder, run_folder;  // folder: where `launch` was typed
  bool terminal = false;           // rank 0 prints on the daemon's terminal; else into its log
  bool operator==(const RunCommand&) const = default;
  static constexpr auto fields();
};

// Welcome: the answer to NodeHello. `generation` fences: the daemon ends ranks of any other generation.
struct Welcome {
  std::string run;
  int64_t generation = 0;
  double beat_every_s = 1;
  double lease_s = 60;  // how long ranks that stand still are kept without the driver
  RunCommand command;
  bool operator==(const Welcome&) const = default;
  static constexpr auto fields();
};

struct StartRanks {
  int64_t generation = 0, world = 0;
  std::vector<int64_t> ranks;  // the ranks of this node, in the order of their local ranks
  int64_t node_rank = 0, nodes = 1;
  std::string master_address;
  int64_t master_port = 0;
  std::vector<std::string> overrides;  // recipe options of this width, after those of the command line
  // The ranks only try whether they outlive some samples (control/driver/batch_search.h), and save nothing.
  bool probe = false;
  bool operator==(const StartRanks&) const = default;
  static constexpr auto fields();
};

// StopRanks: send SIGTERM, and SIGKILL after the grace time; 0: SIGKILL at once. `save`: ranks are asked to
// save first, so the grace time is long.
struct StopRanks {
  int64_t generation = 0;  // this generation and all before it
  double grace_s = 0;
  bool save = false;
  std::string reason;
  // Instead of saving, each rank that can writes its state to its node's memory
  // (train/saving/state_keeper.h); the others end at once.
  bool leave = false;
  bool operator==(const StopRanks&) const = default;
  static constexpr auto fields();
};

struct RunChecks {
  int64_t id = 0;
  std::string suite;  // "preflight" (under a minute, before ranks start) or "stop_time" (minutes)
  double limit_s = 60;
  // Addresses of the nodes that run the same suite now, in the same order on all nodes.
  std::vector<std::string> peers;
  bool operator==(const RunChecks&) const = default;
  static constexpr auto fields();
};

struct GatherEvidence {
  int64_t generation = 0;
  bool operator==(const GatherEvidence&) const = default;
  static constexpr auto fields();
};

inline constexpr int64_t kEveryStep = std::numeric_limits<int64_t>::max();

// Release: the node is no longer needed, or is evicted. The daemon ends its ranks and itself.
struct Release {
  std::string reason;
  bool evicted = false;
  // The node's memory need not keep steps up to this one: they are on disk, or nobody will ask this node for
  // them.
  int64_t committed_step = -1;
  bool operator==(const Release&) const = default;
  static constexpr auto fields();
};

// StillHere: sent every few seconds; a daemon that hears nothing considers its connection dead.
struct StillHere {
  bool operator==(const StillHere&) const = default;
  static constexpr auto fields();
};

// RenewKeys: a generation has begun, and the driver encrypts what follows with another key
// (control/wire/authentication.h).
struct RenewKeys {
  int64_t generation = 0;
  bool operator==(const RenewKeys&) const = default;
  static constexpr auto fields();
};

// KeysRenewed: the last message of the daemon under the old key.
struct KeysRenewed {
  int64_t generation = 0;
  bool operator==(const KeysRenewed&) const = default;
  static constexpr auto fields();
};

struct StatusRequest {
  bool operator==(const StatusRequest&) const = default;
  static constexpr auto fields();
};

struct EvictRequest {
  std::string target;  // "3": the node of rank 3; "node-1": a node
  std::string reason;
  bool operator==(const EvictRequest&) const = default;
  static constexpr auto fields();
};

// DrainRequest: all ranks save and end; the driver ends with 74.
struct DrainRequest {
  std::string reason;
  bool operator==(const DrainRequest&) const = default;
  static constexpr auto fields();
};

struct Answer {
  bool good = true;
  std::string text;  // answer to StatusRequest: status.json
  bool operator==(const Answer&) const = default;
  static constexpr auto fields();
};

using NodeMessage =
    std::variant<NodeHello, NodeBeat, RankExited, HealthReport, CheckResults, Evidence, KeysRenewed>;
using DriverMessage =
    std::variant<Welcome, StartRanks, StopRanks, RunChecks, GatherEvidence, Release, StillHere, RenewKeys>;
using ClientMessage = std::variant<StatusRequest, EvictRequest, DrainRequest>;

std::string_view type_of(const NodeMessage& message);  // "node_beat"
std::string_view type_of(const DriverMessage& message);
std::string_view type_of(const ClientMessage& message);

std::string to_text(const NodeMessage& message);
std::string to_text(const DriverMessage& message);
std::string to_text(const ClientMessage& message);
std::string to_text(const Answer& answer);

// The parsers are strict: an unknown type, a missing or superfluous field, a field of another type or a
// number out of range is an Error (kCommunication) that names `where`, the peer that sent it.
NodeMessage node_message(std::string_view text, const std::string& where);
DriverMessage driver_message(std::string_view text, const std::string& where);
ClientMessage client_message(std::string_view text, const std::string& where);
Answer answer_from_text(std::string_view text, const std::string& where);

constexpr auto CollectiveBeat::fields() {
  using C = CollectiveBeat;
  return std::tuple{observe::Field{"group", &C::group}, observe::Field{"name", &C::name},
                    observe::Field{"kind", &C::kind}, observe::Field{"sequence", &C::sequence},
                    observe::Field{"state", &C::state}};
}
constexpr auto RankError::fields() {
  using R = RankError;
  return std::tuple{observe::Field{"code", &R::code}, observe::Field{"text", &R::text},
                    observe::Field{"consequence", &R::consequence}, observe::Field{"age_s", &R::age_s}};
}
constexpr auto BackgroundBeat::fields() {
  using B = BackgroundBeat;
  return std::tuple{observe::Field{"name", &B::name}, observe::Field{"age_s", &B::age_s},
                    observe::Field{"allowed_s", &B::allowed_s}};
}
constexpr auto RankBeat::fields() {
  using R = RankBeat;
  return std::tuple{observe::Field{"rank", &R::rank},
                    observe::Field{"generation", &R::generation},
                    observe::Field{"pid", &R::pid},
                    observe::Field{"beat_age_s", &R::beat_age_s},
                    observe::Field{"progress_age_s", &R::progress_age_s},
                    observe::Field{"step", &R::step},
                    observe::Field{"resumed_step", &R::resumed_step},
                    observe::Field{"micro_step", &R::micro_step},
                    observe::Field{"phase", &R::phase},
                    observe::Field{"phase_age_s", &R::phase_age_s},
                    observe::Field{"task_phase", &R::task_phase},
                    observe::Field{"collective", &R::collective},
                    observe::Field{"loss", &R::loss},
                    observe::Field{"gradient_norm", &R::gradient_norm},
                    observe::Field{"tokens", &R::tokens},
                    observe::Field{"resident_bytes", &R::resident_bytes},
                    observe::Field{"device_bytes", &R::device_bytes},
                    observe::Field{"step_seconds", &R::step_seconds},
                    observe::Field{"phase_seconds", &R::phase_seconds},
                    observe::Field{"background", &R::background},
                    observe::Field{"error", &R::error}};
}
constexpr auto RankExited::fields() {
  using R = RankExited;
  return std::tuple{observe::Field{"rank", &R::rank},
                    observe::Field{"generation", &R::generation},
                    observe::Field{"pid", &R::pid},
                    observe::Field{"status", &R::status},
                    observe::Field{"age_s", &R::age_s},
                    observe::Field{"stopped", &R::stopped},
                    observe::Field{"out_of_memory", &R::out_of_memory},
                    observe::Field{"step", &R::step},
                    observe::Field{"error", &R::error},
                    observe::Field{"last_words", &R::last_words},
                    observe::Field{"stack", &R::stack}};
}
constexpr auto NodeHello::fields() {
  using N = NodeHello;
  return std::tuple{observe::Field{"protocol", &N::protocol},
                    observe::Field{"version", &N::version},
                    observe::Field{"run", &N::run},
                    observe::Field{"node", &N::node},
                    observe::Field{"host", &N::host},
                    observe::Field{"boot_id", &N::boot_id},
                    observe::Field{"address", &N::address},
                    observe::Field{"pid", &N::pid},
                    observe::Field{"slots", &N::slots},
                    observe::Field{"spare", &N::spare},
                    observe::Field{"free_port", &N::free_port},
                    observe::Field{"generation", &N::generation},
                    observe::Field{"running", &N::running},
                    observe::Field{"ended", &N::ended}};
}
constexpr auto NodeBeat::fields() {
  using N = NodeBeat;
  return std::tuple{observe::Field{"generation", &N::generation}, observe::Field{"free_port", &N::free_port},
                    observe::Field{"running", &N::running}, observe::Field{"ended", &N::ended},
                    observe::Field{"machine", &N::machine}};
}
constexpr auto HealthReport::fields() {
  using H = HealthReport;
  return std::tuple{observe::Field{"kind", &H::kind}, observe::Field{"code", &H::code},
                    observe::Field{"rank", &H::rank}, observe::Field{"device", &H::device},
                    observe::Field{"text", &H::text}};
}
constexpr auto CheckResult::fields() {
  using C = CheckResult;
  return std::tuple{observe::Field{"name", &C::name},          observe::Field{"passed", &C::passed},
                    observe::Field{"measured", &C::measured},  observe::Field{"limit", &C::limit},
                    observe::Field{"unit", &C::unit},          observe::Field{"text", &C::text},
                    observe::Field{"signature", &C::signature}};
}
constexpr auto CheckResults::fields() {
  using C = CheckResults;
  return std::tuple{observe::Field{"id", &C::id}, observe::Field{"suite", &C::suite},
                    observe::Field{"checks", &C::checks}};
}
constexpr auto Evidence::fields() {
  using E = Evidence;
  return std::tuple{observe::Field{"generation", &E::generation}, observe::Field{"rank", &E::rank},
                    observe::Field{"calls", &E::calls},           observe::Field{"stacks", &E::stacks},
                    observe::Field{"process", &E::process},       observe::Field{"last", &E::last}};
}
constexpr auto RunCommand::fields() {
  using R = RunCommand;
  return std::tuple{observe::Field{"words", &R::words},
                    observe::Field{"options", &R::options},
                    observe::Field{"environment", &R::environment},
                    observe::Field{"launched", &R::launched},
                    observe::Field{"folder", &R::folder},
                    observe::Field{"run_folder", &R::run_folder},
                    observe::Field{"terminal", &R::terminal}};
}
constexpr auto Welcome::fields() {
  using W = Welcome;
  return std::tuple{observe::Field{"run", &W::run}, observe::Field{"generation", &W::generation},
                    observe::Field{"beat_every_s", &W::beat_every_s}, observe::Field{"lease_s", &W::lease_s},
                    observe::Field{"command", &W::command}};
}
constexpr auto StartRanks::fields() {
  using S = StartRanks;
  return std::tuple{observe::Field{"generation", &S::generation},
                    observe::Field{"world", &S::world},
                    observe::Field{"ranks", &S::ranks},
                    observe::Field{"node_rank", &S::node_rank},
                    observe::Field{"nodes", &S::nodes},
                    observe::Field{"master_address", &S::master_address},
                    observe::Field{"master_port", &S::master_port},
                    observe::Field{"overrides", &S::overrides},
                    observe::Field{"probe", &S::probe}};
}
constexpr auto StopRanks::fields() {
  using S = StopRanks;
  return std::tuple{observe::Field{"generation", &S::generation}, observe::Field{"grace_s", &S::grace_s},
                    observe::Field{"save", &S::save}, observe::Field{"reason", &S::reason},
                    observe::Field{"leave", &S::leave}};
}
constexpr auto RunChecks::fields() {
  using R = RunChecks;
  return std::tuple{observe::Field{"id", &R::id}, observe::Field{"suite", &R::suite},
                    observe::Field{"limit_s", &R::limit_s}, observe::Field{"peers", &R::peers}};
}
constexpr auto GatherEvidence::fields() {
  return std::tuple{observe::Field{"generation", &GatherEvidence::generation}};
}
constexpr auto Release::fields() {
  return std::tuple{observe::Field{"reason", &Release::reason}, observe::Field{"evicted", &Release::evicted},
                    observe::Field{"committed_step", &Release::committed_step}};
}
constexpr auto StillHere::fields() { return std::tuple{}; }
constexpr auto RenewKeys::fields() {
  return std::tuple{observe::Field{"generation", &RenewKeys::generation}};
}
constexpr auto KeysRenewed::fields() {
  return std::tuple{observe::Field{"generation", &KeysRenewed::generation}};
}
constexpr auto StatusRequest::fields() { return std::tuple{}; }
constexpr auto EvictRequest::fields() {
  return std::tuple{observe::Field{"target", &EvictRequest::target},
                    observe::Field{"reason", &EvictRequest::reason}};
}
constexpr auto DrainRequest::fields() { return std::tuple{observe::Field{"reason", &DrainRequest::reason}}; }
constexpr auto Answer::fields() {
  return std::tuple{observe::Field{"good", &Answer::good}, observe::Field{"text", &Answer::text}};
}

}  // namespace longhaul::control
