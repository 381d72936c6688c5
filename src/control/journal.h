// The journal: what a driver must know after it was killed. It is a list of entries, and the state of the run
// (control/ledger.h) is a pure function of it. RUN/control/journal.jsonl holds one JSON object a line,
//
//   {"sequence":7,"at_s":1795228565.25,"entry":"generation_began",…,"crc32c":"5f3a9c01"}
//
// whose checksum covers the bytes of the line before `,"crc32c"`. The file is only appended to, and an entry
// is on disk before anything that follows from it is done. A torn last line is cut off; damage elsewhere is
// an Error. at_s: seconds since 1970 by the driver's clock, which never goes back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "observe/events/event.h"

namespace longhaul::control {

inline constexpr int64_t kJournalVersion = 1;

struct DriverBegan {  // each start of a driver
  int64_t version = kJournalVersion;
  std::string run, recipe;
  bool operator==(const DriverBegan&) const = default;
  static constexpr auto fields();
};

struct StateChanged {
  std::string state, reason;
  bool operator==(const StateChanged&) const = default;
  static constexpr auto fields();
};

struct NodeChanged {
  std::string node, host, boot_id;
  std::string state;  // "active", "spare", "lost", "evicted"
  std::string reason;
  int64_t slots = 1;
  double until_s = 0;    // for "evicted": the host is blocked until then
  bool leaving = false;  // the node is replaced at the next checkpoint
  bool operator==(const NodeChanged&) const = default;
  static constexpr auto fields();
};

struct NodeRanks {
  std::string node;
  std::vector<int64_t> ranks;
  bool operator==(const NodeRanks&) const = default;
  static constexpr auto fields();
};

struct GenerationBegan {
  int64_t generation = 0, world = 0;
  std::vector<NodeRanks> placement;  // in the order of ranks
  bool planned = false;              // no fault made it necessary
  bool operator==(const GenerationBegan&) const = default;
  static constexpr auto fields();
};

// The generation's first step is under way, continued from the checkpoint of `step`.
struct GenerationResumed {
  int64_t generation = 0, step = 0;
  bool operator==(const GenerationResumed&) const = default;
  static constexpr auto fields();
};

// A checkpoint that survives the end of the ranks was written.
struct StepCommitted {
  int64_t step = 0;
  bool operator==(const StepCommitted&) const = default;
  static constexpr auto fields();
};

struct IncidentOpened {
  int64_t id = 0, generation = 0, rank = -1, step = -1;
  std::string fault, node, device, evidence, action;  // fault: name_of(FaultClass)
  std::vector<std::string> suspects;
  std::string trace;  // what crashes of the same cause have in common; empty: nothing
  int64_t status = 0;
  bool restarts = false;  // the action restarts ranks: it costs one restart of the budget
  double waited_s = 0;    // seconds from noticing the fault to this entry
  double detected_milliseconds = 0;
  double overdue_milliseconds = -1;  // for a hang: since its deadline; −1: it is no hang
  bool operator==(const IncidentOpened&) const = default;
  static constexpr auto fields();
};

// The diagnosis of an incident changed: there is more evidence, or another verdict.
struct IncidentDiagnosed {
  int64_t id = 0;
  std::string fault, node, evidence, action;
  int64_t rank = -1;
  std::vector<std::string> suspects;
  double diagnosed_milliseconds = 0;
  bool operator==(const IncidentDiagnosed&) const = default;
  static constexpr auto fields();
};

struct IncidentClosed {
  int64_t id = 0, lost_steps = 0;
  bool recovered = true;
  double recovered_milliseconds = 0;
  bool operator==(const IncidentClosed&) const = default;
  static constexpr auto fields();
};

// The state of the search for samples that kill every rank that reads them: samples [begin, end) are
// suspected, and the next generation skips [skipped_begin, skipped_end).
struct SearchChanged {
  bool active = false;
  bool failed = false;  // the data is not the cause
  int64_t begin = 0, end = 0, skipped_begin = 0, skipped_end = 0;
  int64_t deadly_step = 0;  // a probe that gets past this step has survived
  std::string trace;
  bool operator==(const SearchChanged&) const = default;
  static constexpr auto fields();
};

// Samples that are skipped for good; the search ended with them.
struct SamplesSkipped {
  int64_t begin = 0, end = 0;
  std::string reason;
  bool operator==(const SamplesSkipped&) const = default;
  static constexpr auto fields();
};

// A generation has ended: the intervals that it measured for time-outs, and its productive time.
struct GenerationEnded {
  int64_t generation = 0, step = 0;
  double productive_s = 0;     // productive seconds of the run until now
  observe::Metrics longest_s;  // longest interval without progress in this generation, by phase
  bool operator==(const GenerationEnded&) const = default;
  static constexpr auto fields();
};

struct RunEnded {
  int64_t code = 0;
  std::string text;
  bool operator==(const RunEnded&) const = default;
  static constexpr auto fields();
};

using JournalBody = std::variant<DriverBegan, StateChanged, NodeChanged, GenerationBegan, GenerationResumed,
                                 StepCommitted, IncidentOpened, IncidentDiagnosed, IncidentClosed,
                                 SearchChanged, SamplesSkipped, GenerationEnded, RunEnded>;

struct JournalEntry {
  int64_t sequence = 0;  // from 1, without gaps
  double at_s = 0;
  JournalBody body;
  bool operator==(const JournalEntry&) const = default;
};

std::string to_line(const JournalEntry& entry);  // ends with a newline

struct Journal {
  std::vector<JournalEntry> entries;
  int64_t whole_bytes = 0;  // bytes that are left when a torn last line is cut off
};
Journal journal_from_text(std::string_view text, const std::string& where);

constexpr auto DriverBegan::fields() {
  using D = DriverBegan;
  return std::tuple{observe::Field{"version", &D::version}, observe::Field{"run", &D::run},
                    observe::Field{"recipe", &D::recipe}};
}
constexpr auto StateChanged::fields() {
  return std::tuple{observe::Field{"state", &StateChanged::state},
                    observe::Field{"reason", &StateChanged::reason}};
}
constexpr auto NodeChanged::fields() {
  using N = NodeChanged;
  return std::tuple{observe::Field{"node", &N::node},       observe::Field{"host", &N::host},
                    observe::Field{"boot_id", &N::boot_id}, observe::Field{"state", &N::state},
                    observe::Field{"reason", &N::reason},   observe::Field{"slots", &N::slots},
                    observe::Field{"until_s", &N::until_s}, observe::Field{"leaving", &N::leaving}};
}
constexpr auto NodeRanks::fields() {
  return std::tuple{observe::Field{"node", &NodeRanks::node}, observe::Field{"ranks", &NodeRanks::ranks}};
}
constexpr auto GenerationBegan::fields() {
  using G = GenerationBegan;
  return std::tuple{observe::Field{"generation", &G::generation}, observe::Field{"world", &G::world},
                    observe::Field{"placement", &G::placement}, observe::Field{"planned", &G::planned}};
}
constexpr auto GenerationResumed::fields() {
  return std::tuple{observe::Field{"generation", &GenerationResumed::generation},
                    observe::Field{"step", &GenerationResumed::step}};
}
constexpr auto StepCommitted::fields() { return std::tuple{observe::Field{"step", &StepCommitted::step}}; }
constexpr auto IncidentOpened::fields() {
  using I = IncidentOpened;
  return std::tuple{observe::Field{"id", &I::id},
                    observe::Field{"generation", &I::generation},
                    observe::Field{"rank", &I::rank},
                    observe::Field{"step", &I::step},
                    observe::Field{"fault", &I::fault},
                    observe::Field{"node", &I::node},
                    observe::Field{"device", &I::device},
                    observe::Field{"evidence", &I::evidence},
                    observe::Field{"action", &I::action},
                    observe::Field{"suspects", &I::suspects},
                    observe::Field{"trace", &I::trace},
                    observe::Field{"status", &I::status},
                    observe::Field{"restarts", &I::restarts},
                    observe::Field{"waited_s", &I::waited_s},
                    observe::Field{"detected_milliseconds", &I::detected_milliseconds},
                    observe::Field{"overdue_milliseconds", &I::overdue_milliseconds}};
}
constexpr auto IncidentDiagnosed::fields() {
  using I = IncidentDiagnosed;
  return std::tuple{observe::Field{"id", &I::id},
                    observe::Field{"fault", &I::fault},
                    observe::Field{"node", &I::node},
                    observe::Field{"evidence", &I::evidence},
                    observe::Field{"action", &I::action},
                    observe::Field{"rank", &I::rank},
                    observe::Field{"suspects", &I::suspects},
                    observe::Field{"diagnosed_milliseconds", &I::diagnosed_milliseconds}};
}
constexpr auto IncidentClosed::fields() {
  using I = IncidentClosed;
  return std::tuple{observe::Field{"id", &I::id}, observe::Field{"lost_steps", &I::lost_steps},
                    observe::Field{"recovered", &I::recovered},
                    observe::Field{"recovered_milliseconds", &I::recovered_milliseconds}};
}
constexpr auto SearchChanged::fields() {
  using S = SearchChanged;
  return std::tuple{observe::Field{"active", &S::active},
                    observe::Field{"failed", &S::failed},
                    observe::Field{"begin", &S::begin},
                    observe::Field{"end", &S::end},
                    observe::Field{"skipped_begin", &S::skipped_begin},
                    observe::Field{"skipped_end", &S::skipped_end},
                    observe::Field{"deadly_step", &S::deadly_step},
                    observe::Field{"trace", &S::trace}};
}
constexpr auto SamplesSkipped::fields() {
  using S = SamplesSkipped;
  return std::tuple{observe::Field{"begin", &S::begin}, observe::Field{"end", &S::end},
                    observe::Field{"reason", &S::reason}};
}
constexpr auto GenerationEnded::fields() {
  using G = GenerationEnded;
  return std::tuple{observe::Field{"generation", &G::generation}, observe::Field{"step", &G::step},
                    observe::Field{"productive_s", &G::productive_s},
                    observe::Field{"longest_s", &G::longest_s}};
}
constexpr auto RunEnded::fields() {
  return std::tuple{observe::Field{"code", &RunEnded::code}, observe::Field{"text", &RunEnded::text}};
}

}  // namespace longhaul::control
