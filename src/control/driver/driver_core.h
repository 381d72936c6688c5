// DriverCore: all decisions of the driver of a run, and nothing else. It has no sockets, threads, files or
// clock of its own, so that the same inputs give the same commands, a simulator can test it, and a journal
// restores its state.
//
//   DriverCore core(plan, policy, journal.entries);
//   // carry out each before the next
//   for (const Command& command : core.on(FromNode{"node-0", message}, now_s)) …
//
// now_s: seconds since 1970 that never go back (the wall clock at the start of the driver, but not before the
// journal's last entry; from then on the monotonic clock). A Tick, sent at the latest at next_tick_s(), which
// is never more than a second away, lets deadlines expire. If the core gets no input for longer than that,
// its own process was held up, and the silence of nodes in that time does not count as absence. Not
// thread-safe: one thread calls it. After a fault all ranks are ended at once and started with the next
// generation, from the newest step that verifies anywhere. Source: docs/sources/reliability.md §5.1-5.5;
// docs/design/control.md.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "control/journal.h"
#include "control/policy.h"
#include "control/wire/messages.h"
#include "data/order/data_position.h"
#include "observe/events/event.h"

namespace longhaul::control {

enum class State {
  kInit,
  kRendezvous,
  kCheck,
  kLoad,
  kTrain,
  kDrain,
  kDone,
  kSuspect,
  kDiagnose,
  kRepair,
  kFailed
};
std::string_view name_of(State state);  // "TRAIN"

// ---- inputs

struct Tick {};
// From a connection whose peer has proved its identity. A NodeHello begins a connection: an older connection
// of this node counts no more.
struct FromNode {
  std::string node;
  NodeMessage message;
};
struct ConnectionLost {  // the node's daemon may reconnect within Policy::node_silent_s
  std::string node;
};
// Reported immediately: the driver's own child process ended, or the engine says that the node is gone.
struct NodeDied {
  std::string node;
  bool reachable = true;  // the machine answers: only the daemon died
  std::string text;
};
struct Evict {         // a person asked for it
  std::string target;  // "3": the node of rank 3; any other text: a node's name
  std::string reason;
};
struct Drain {  // a person asked for it, or the engine's deadline came: save and end
  std::string reason;
};
struct Abort {  // a second Ctrl-C: end now
  std::string reason;
};
struct Committed {  // the driver's process has seen that a checkpoint is complete
  int64_t step = 0;
};
struct HangFound {  // the answer to AnalyseHang
  int64_t generation = 0;
  std::vector<int64_t> suspects;  // ranks; empty: nobody stands out
  bool program = false;           // ranks called different things: a mistake of the program, no machine's
  bool stopped = false;           // the suspects' processes do not run at all, whatever of their work is late
  std::string text;               // rank, group, operation, line
};
struct Suspected {  // from a detector that compares several nodes: the straggler detector or Minder
  HealthReport report;
  std::string node;
};
struct JournalProblem {  // the disk is full, and entries wait in memory; empty text: the problem is over
  std::string text;
};

using Input = std::variant<Tick, FromNode, ConnectionLost, NodeDied, Evict, Drain, Abort, Committed,
                           HangFound, Suspected, JournalProblem>;

// ---- commands

struct ToNode {
  std::string node;
  DriverMessage message;
};
struct Refuse {  // close the connection that the hello came from, and tell the node why
  std::string node, reason;
};
// The connection of this node counts no more. If its daemon lives, it connects again with a hello.
struct CloseConnection {
  std::string node;
};
struct WriteJournal {  // to be on disk before the commands that follow are carried out
  JournalEntry entry;
};
struct WriteSkip {                        // RUN/control/skip.json
  std::vector<data::SampleRange> ranges;  // skipped for good
  std::string reason;
  std::optional<data::SampleRange> probe;  // skipped too, by the generation that begins
};
struct Blocked {
  std::string host, boot_id, node, reason;
  int64_t generation = 0;
  double until_s = 0;
};
struct WriteBlocked {  // RUN/control/blocked.json: all hosts that are blocked now
  std::vector<Blocked> blocked;
};
struct Emit {  // an event for RUN/events/driver-0.jsonl
  observe::EventBody body;
};
struct StartNode {  // start the daemon of this name again, on a node where the driver had started it
  std::string node;
};
struct RequestNode {                 // ask the engine for a node in the place of one that is gone
  std::vector<std::string> exclude;  // hosts
};
struct ReleaseNode {  // give the node back to the engine
  std::string node, host, reason;
};
struct AnalyseHang {  // all evidence of this generation has come: analyse it and answer with HangFound
  int64_t generation = 0;
  // Name of the work of background threads that hangs (training may go on, so only waits of seconds count);
  // empty: the ranks themselves hang.
  std::string work;
  std::vector<int64_t> at_it;  // the ranks that do this work
};
struct Reply {  // the answer to the person who sent the Evict or Drain
  Answer answer;
};
struct Say {  // a line of text for people
  std::string text;
};
struct Finish {  // the driver ends; all nodes have been released
  ExitCode code = ExitCode::kDone;
  std::string text;
  int64_t rank = -1;  // the rank that caused the end, for "its messages: …"
};

using Command = std::variant<ToNode, Refuse, CloseConnection, WriteJournal, WriteSkip, WriteBlocked, Emit,
                             StartNode, RequestNode, ReleaseNode, AnalyseHang, Reply, Say, Finish>;
using Commands = std::vector<Command>;

struct Ledger;
class Driving;  // the implementation

class DriverCore {
 public:
  DriverCore(RunPlan plan, Policy policy, std::vector<JournalEntry> journal = {});
  ~DriverCore();
  DriverCore(DriverCore&&) noexcept;
  DriverCore& operator=(DriverCore&&) noexcept;

  Commands on(const Input& input, double now_s);
  double next_tick_s(double now_s) const;  // the time by which a Tick is due; never more than a second away

  State state() const;
  int64_t generation() const;
  const Ledger& ledger() const;  // equals the state that the journal gives
  // The contents of status.json, without "driver" and "updated_wall_time", which DriverService adds.
  nlohmann::ordered_json status(double now_s) const;

 private:
  std::unique_ptr<Driving> inside_;
};

}  // namespace longhaul::control
