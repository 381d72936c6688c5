// Traces: the machine that is furthest from the others, second by second. For each window of a channel: S_i =
// Σ_j distance(i, j); normal score z_i = (S_i − mean) / deviation of S over the n machines; the candidate is
// the machine with the largest z. For all data z ≤ √(n − 1), which one machine reaches if all others are at
// one place. The same machine among more machines has another z, so a score is stored as what z / √(n − 1)
// would be among kReferenceMachines (share_among_reference()). Shares are scale-free, so the median distance
// of the candidate from the others is stored with them. A channel of robust z (embedding.h) has its deviation
// from the median in place of z, and the distance from the median as its distance. Thresholds on both are
// applied later (continuity.h): a trace is computed once, and decisions are made with any thresholds.
//
// The furthest machine is not always the faulty one: among a thousand machines some are further for a few
// seconds, and two faulty machines hide each other. Therefore the `followed` machines of largest S are
// candidates, and each is scored against the machines that are no candidates, and itself.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "detect/minder/embedding.h"
#include "detect/minder/vector_loops.h"
#include "detect/samples/samples.h"

namespace longhaul::detect {

inline constexpr int64_t kFewestPeers = 4;  // with fewer machines none can be told apart: z ≤ √(n − 1) < 1.5
inline constexpr float kLeastShare = 0.4f;  // below it no machine is a candidate, and no distance is computed

struct Candidate {
  int32_t machine = -1;  // -1: none
  float share = 0, distance = 0;
};

inline constexpr int64_t kReferenceMachines = 16;

// Converts z / √(n − 1) of n machines; the rule is ours. One machine at distance D from the rest, whose own
// sums have deviation σ, has z² = 1 / (1/(n − 1) + σ²/D²), so the share falls with n. Therefore D/σ is
// computed from the share, divided by what the largest of n draws of noise reaches, √(2 ln n), and converted
// to the share that the same quotient has among kReferenceMachines. 1 stays 1, and a share among
// kReferenceMachines stays as it is.
double share_among_reference(double share, int64_t machines);
// The same measure for a machine whose distance from the others is known in units of their deviation: the
// score of robust z.
double share_of_deviations(double deviations, int64_t machines);

// WindowScorer scores one window at a time. Each thread needs one of its own.
class WindowScorer {
 public:
  WindowScorer(const Channel& channel, Distance distance, int followed, int64_t machines);

  // rows: window · inputs pointers to rows of all machines; members: the machines to compare. Members without
  // data in the window are left out. Writes `followed` candidates, the furthest first, and returns how many
  // machines were compared. With fewer than kFewestPeers there is no candidate.
  int64_t score(std::span<const float* const> rows, std::span<const int32_t> members, Candidate* into);

 private:
  void candidates(int64_t count, int64_t stride, Candidate* into);
  void robust_candidates(int64_t count, Candidate* into);
  void distances_from(int64_t machine, int64_t count, int64_t stride, float* into) const;

  const Channel& channel_;
  Distance distance_;
  int followed_;
  std::vector<int32_t> present_, order_;
  std::vector<float> windows_, embedded_, sums_, apart_;
  std::vector<double> rest_;
};

struct Trace {
  size_t channel = 0;
  int32_t peers = 0;    // index of the class that was compared
  int64_t window = 0;   // seconds of one window
  int64_t windows = 0;  // the first covers seconds [0, window), the next begins a second later
  int followed = 1;
  int64_t too_few = 0;          // windows in which fewer than kFewestPeers machines had data
  int64_t scored = 0;           // number of windows that were scored
  std::vector<Candidate> best;  // [window][followed]

  const Candidate* at(int64_t index) const { return best.data() + index * followed; }
};

// `channel_at` is stored in the trace. It never fails; a pull shorter than a window has no windows.
Trace trace_of(const Pull& pull, const Channel& channel, size_t channel_at, int32_t peers, Distance distance,
               int followed);

// A trace without a scored window: no machine is a candidate in any of them.
Trace empty_trace(const Pull& pull, const Channel& channel, size_t channel_at, int32_t peers, int followed);
// Scores some of its windows, in any order; `too_few` counts those only.
void score_windows(Trace& trace, const Pull& pull, const Channel& channel, Distance distance,
                   std::span<const int64_t> windows);

// The place of each metric of a channel in a pull; empty when one is missing.
std::vector<size_t> places_in(const Pull& pull, const Channel& channel);

}  // namespace longhaul::detect
