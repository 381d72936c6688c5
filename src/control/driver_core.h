// DriverCore: all decisions of the driver of a run, and nothing else: no sockets, threads, files or clock of its own, so that the same inputs give the
// same commands, a simulator can try it, and a journal brings it back.
//
//   DriverCore core(plan, policy, journal.entries);
//   for (const Command& command : core.on(FromNode{"node-0", message}, now_s)) …   // in this order, each done before the next
//
// now_s: seconds since 1970 that never go back (wall clock at the start of the driver, not before the journal's last entry, then the monotonic
// clock). A Tick when next_tick_s() has come at the latest, which is never more than a second away, moves deadlines; a core that was told nothing
// for longer was held up, and takes nobody's silence of that time for an absence. Not thread-safe: one thread feeds it.
// After a fault all ranks are ended at once and started with the next generation, from the newest step that verifies anywhere.
// Source: docs/sources/reliability.md §5.1-5.5; docs/design/control.md.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "control/journal.h"
#include "control/messages.h"
#include "control/policy.h"
#include "data/data_position.h"
#include "observe/event.h"

namespace longhaul::control {

enum class State { kInit, kRendezvous, kCheck, kLoad, kTrain, kDrain, kDone, kSuspect, kDiagnose, kRepair, kFailed };
std::string_view name_of(State state);  // "TRAIN"

// ---- what comes in

struct Tick {};
struct FromNode {  // of a connection whose peer has proved who it is. A NodeHello begins: an older connection of this node counts no more.
  std::string node;
  NodeMessage message;
};
struct ConnectionLost {  // its daemon may come back within Policy::node_silent_s
  std::string node;
};
struct NodeDied {  // known at once: the shell's own child ended, the engine says so
  std::string node;
  bool reachable = true;  // the machine answers: only the daemon died
  std::string text;
};
struct Evict {         // by a person
  std::string target;  // "3": the node of rank 3; else a node's name
  std::string reason;
};
struct Drain {  // by a person or a deadline of the engine: save and end
  std::string reason;
};
struct Abort {  // a second Ctrl-C: end now
  std::string reason;
};
struct Committed {  // the shell has seen that a checkpoint is whole
  int64_t step = 0;
};
struct HangFound {  // answer to AnalyseHang
  int64_t generation = 0;
  std::vector<int64_t> suspects;  // ranks; empty: nobody stands out
  bool program = false;           // ranks called different things: a mistake of the program, no machine's
  bool stopped = false;           // the suspects' processes do not run at all, whatever of their work is late
  std::string text;               // rank, group, operation, line
};
struct Suspected {  // by a detector that looks at several nodes: stragglers, Minder
  HealthReport report;
  std::string node;
};
struct JournalProblem {  // the disk is full: entries wait in the shell's memory. Empty text: it is over
  std::string text;
};

using Input = std::variant<Tick, FromNode, ConnectionLost, NodeDied, Evict, Drain, Abort, Committed, HangFound, Suspected, JournalProblem>;

// ---- what is to be done

struct ToNode {
  std::string node;
  DriverMessage message;
};
struct Refuse {  // close the connection that the hello came by, telling it why
  std::string node, reason;
};
struct CloseConnection {  // the node's connection counts no more: its daemon, if it lives, begins again with a hello
  std::string node;
};
struct WriteJournal {  // before the commands that follow
  JournalEntry entry;
};
struct WriteSkip {                        // RUN/control/skip.json (control/run_files.h)
  std::vector<data::SampleRange> ranges;  // for good
  std::string reason;
  std::optional<data::SampleRange> probe;  // beside them, by the generation that begins
};
struct Blocked {
  std::string host, boot_id, node, reason;
  int64_t generation = 0;
  double until_s = 0;
};
struct WriteBlocked {  // RUN/control/blocked.json: all that are blocked now
  std::vector<Blocked> blocked;
};
struct Emit {  // into RUN/events/driver-0.jsonl
  observe::EventBody body;
};
struct StartNode {  // start a daemon of this name again, where the shell had started it
  std::string node;
};
struct RequestNode {                 // of the engine, for the place of one that is gone
  std::vector<std::string> exclude;  // hosts
};
struct ReleaseNode {  // to the engine
  std::string node, host, reason;
};
struct AnalyseHang {  // all evidence of this generation is in: answer with HangFound
  int64_t generation = 0;
  std::string work;  // of the ranks' other threads, that hangs (training may go on: only waits of seconds count); empty: the ranks do
  std::vector<int64_t> at_it;  // the ranks that are at it
};
struct Reply {  // to the person whose Evict or Drain this is
  Answer answer;
};
struct Say {  // a line for people
  std::string text;
};
struct Finish {  // the driver ends; all nodes have been released
  ExitCode code = ExitCode::kDone;
  std::string text;
  int64_t rank = -1;  // whose fault it was, for "its messages: …"
};

using Command = std::variant<ToNode, Refuse, CloseConnection, WriteJournal, WriteSkip, WriteBlocked, Emit, StartNode, RequestNode,
                             ReleaseNode, AnalyseHang, Reply, Say, Finish>;
using Commands = std::vector<Command>;

struct Ledger;
class Driving;  // its inside

class DriverCore {
 public:
  DriverCore(RunPlan plan, Policy policy, std::vector<JournalEntry> journal = {});
  ~DriverCore();
  DriverCore(DriverCore&&) noexcept;
  DriverCore& operator=(DriverCore&&) noexcept;

  Commands on(const Input& input, double now_s);
  double next_tick_s(double now_s) const;  // when a Tick is due at the latest; never more than a second away

  State state() const;
  int64_t generation() const;
  const Ledger& ledger() const;  // equals the journal's
  // status.json of ISSUE 17, without "driver" and "updated_wall_time", which the shell adds.
  nlohmann::ordered_json status(double now_s) const;

 private:
  std::unique_ptr<Driving> inside_;
};

}  // namespace longhaul::control
