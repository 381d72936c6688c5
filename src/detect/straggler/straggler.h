// Stragglers (docs/sources/reliability.md §5.9): which ranks are slow by themselves, although synchronous
// steps make all ranks look equally slow. A rank can have one of these causes:
//
//   slow     computes longer than its peers at equal work (work_fit.h), by more than their scatter, in most
//            steps
//   work     is waited for because it has more work: its machine is fine; micro-batches should be distributed
//            anew
//   data     is waited for because its batches come late
//   waits    is the last to enter most calls (it waits the shortest time there, so no clock is needed), and
//            its compute time is unknown
//
// The report also lists groups of ranks that need longer for the same call than other groups of their kind
// once all members have entered it: a slow link. A slow link makes no rank a straggler, because all its users
// wait equally long.
//
// The scores of nvidia-resiliency-ext are reported too: the best peer's time over the rank's own, and its own
// best time over its current one. Alone they miss a host that is a tenth slower among hundreds; the rule here
// is how far the rank lies outside the scatter of its peers. Pure functions, safe in any thread.
#pragma once

#include <optional>
#include <string>

#include "detect/straggler/step_change.h"
#include "detect/straggler/step_times.h"

namespace longhaul::detect {

struct StragglerOptions {
  int64_t warm_up = 5;      // first steps after a start, which are not counted
  int64_t window = 200;     // number of last steps, which are counted
  int64_t least = 20;       // with fewer steps nothing is reported
  double slower = 0.05;     // at least so much slower than its peers
  double deviations = 6;    // in units of the peers' scatter
  double most_steps = 0.8;  // least share of steps in which it is slow, or last
  // Slower than the best peer, where there are fewer than kFewPeers, whose scatter says little.
  double few_peers = 0.13;
  double noticed = 0.02;   // share of a step that others must lose by a rank that is always last
  double slow_link = 0.5;  // so much longer than calls of other groups of the kind
};
inline constexpr size_t kFewPeers = 5;

struct Straggler {
  enum class Cause { kSlow, kWork, kData, kWaits };
  int64_t rank = 0;
  std::string host;
  Cause cause = Cause::kSlow;
  double slower = 0;       // than the median of its peers, at equal work: 0.10
  double deviations = 0;   // in units of their scatter
  double steps = 0;        // share of steps in which it was slow, or the last
  double last = kUnknown;  // share of calls that it entered last
  double score = 1, own_score = 1;
  double lost_s = 0;  // seconds per step that the others would wait less without it
};
std::string_view name_of(Straggler::Cause cause);  // "slow"

struct SlowGroup {
  std::string group, kind;
  double longer = 0;           // than the median of its kind: 1.0 is twice as long
  std::vector<int64_t> ranks;  // its members
};

struct StragglerReport {
  int64_t steps = 0;                  // number of counted steps; 0: too few
  std::vector<Straggler> stragglers;  // the costliest first
  std::vector<SlowGroup> groups;
  std::optional<StepChange> change;  // `at`: index into StepTimes::steps
  int64_t change_step = 0;           // number of that step
};

StragglerReport find_stragglers(const StepTimes& times, const StragglerOptions& options = {});
std::string text_of(const StragglerReport& report);  // several lines, for a person

// Chooses a remedy for lost time by the ski-rental rule: the next remedy is due when the loss so far reaches
// its price.
enum class Remedy { kIgnore, kReplaceAtCheckpoint, kReplaceNow };
struct RemedyPrices {
  double replace_at_checkpoint_s = 0, replace_now_s = 0;  // ascending
};
Remedy remedy_for(double lost_s, const RemedyPrices& prices);

}  // namespace longhaul::detect
