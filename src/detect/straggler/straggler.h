// Stragglers (docs/sources/reliability.md §5.9): which ranks are slow by themselves, while synchronous steps make all look the same.
//
//   slow     computes longer than its peers at equal work (work_fit.h), by more than they differ among each other, in most steps
//   work     is waited for because it has more to do: nothing is wrong with its machine; micro-batches want to be dealt out anew
//   data     is waited for because its batches come late
//   waits    is the last to arrive at most calls (it waits the shortest there; no clock needed), and nobody knows what it computed
//
// and which groups of ranks need longer for the same call than others of their kind when all have come: a slow link. A slow link makes no rank a
// straggler: all who use it wait equally long.
//
// Scores as nvidia-resiliency-ext has them stand beside: best peer's time over its own, and its own best over its own now. They alone miss a host
// that is a tenth slow among hundreds; the rule here is how far it lies outside of what its peers scatter. Pure functions, any thread.
#pragma once

#include <optional>
#include <string>

#include "detect/straggler/step_change.h"
#include "detect/straggler/step_times.h"

namespace longhaul::detect {

struct StragglerOptions {
  int64_t warm_up = 5;      // first steps of a start, which are not counted
  int64_t window = 200;     // last steps, which are
  int64_t least = 20;       // of fewer nothing is said
  double slower = 0.05;     // than peers, at least
  double deviations = 6;    // of the peers' scatter
  double most_steps = 0.8;  // share of steps in which it is slow, or last
  double few_peers = 0.13;  // slower than the best, where there are fewer than kFewPeers, whose scatter says little
  double noticed = 0.02;    // of a step: what others lose by a rank that is always last
  double slow_link = 0.5;   // longer than calls of other groups of the kind
};
inline constexpr size_t kFewPeers = 5;

struct Straggler {
  enum class Cause { kSlow, kWork, kData, kWaits };
  int64_t rank = 0;
  std::string host;
  Cause cause = Cause::kSlow;
  double slower = 0;       // than the middle of its peers, at equal work: 0.10
  double deviations = 0;   // of their scatter
  double steps = 0;        // share in which it was slow, or the last
  double last = kUnknown;  // share of calls to which it came last
  double score = 1, own_score = 1;
  double lost_s = 0;  // of each step: what the others would have waited less
};
std::string_view name_of(Straggler::Cause cause);  // "slow"

struct SlowGroup {
  std::string group, kind;
  double longer = 0;           // than the middle of its kind: 1.0 is twice as long
  std::vector<int64_t> ranks;  // its members
};

struct StragglerReport {
  int64_t steps = 0;                  // that were counted; 0: too few
  std::vector<Straggler> stragglers;  // those who cost most first
  std::vector<SlowGroup> groups;
  std::optional<StepChange> change;  // `at`: place in StepTimes::steps
  int64_t change_step = 0;           // its number
};

StragglerReport find_stragglers(const StepTimes& times, const StragglerOptions& options = {});
std::string text_of(const StragglerReport& report);  // for a person, lines

// What to do about time that is being lost, the ski-rental way: the next remedy when what was lost so far reaches its price.
enum class Remedy { kIgnore, kReplaceAtCheckpoint, kReplaceNow };
struct RemedyPrices {
  double replace_at_checkpoint_s = 0, replace_now_s = 0;  // ascending
};
Remedy remedy_for(double lost_s, const RemedyPrices& prices);

}  // namespace longhaul::detect
