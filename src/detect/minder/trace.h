// Who is furthest from the others, second by second. For each window of a channel: S_i = Σ_j distance(i, j); normal score z_i = (S_i − mean) /
// deviation of S over the n machines; the candidate is the machine with the largest z. Whatever the data, z ≤ √(n − 1), which is reached by one
// machine away from all others at one place. The same machine among more of them has another z, so a score is kept as what z / √(n − 1) would be among
// kReferenceMachines (share_among_reference()). Shares are scale-free, so the median distance of the candidate from the others is kept beside them.
// A channel of robust z (embedding.h) has its deviation from the median in place of z, and the distance from the median as its distance.
// Thresholds on both are applied later (continuity.h): a trace is computed once and decided under any.
//
// The furthest of all is not always the faulty one: among a thousand machines some are, for some seconds, further than it, and two faulty ones hide each
// other. So the `followed` machines of largest S are candidates, each scored among those outside of them and itself.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "detect/minder/embedding.h"
#include "detect/minder/vector_loops.h"
#include "detect/samples/samples.h"

namespace longhaul::detect {

inline constexpr int64_t kFewestPeers = 4;  // of fewer nobody can be told apart: z ≤ √(n − 1) < 1.5
inline constexpr float kLeastShare = 0.4f;  // below it nobody is called a candidate, and no distance is computed

struct Candidate {
  int32_t machine = -1;  // -1: nobody
  float share = 0, distance = 0;
};

inline constexpr int64_t kReferenceMachines = 16;

// From z / √(n − 1) of n machines, ours. One machine at D from the rest, whose own sums have deviation σ, has z² = 1 / (1/(n − 1) + σ²/D²): the share falls
// with n by itself. So D/σ is found from it, taken as a part of what the largest of n draws of noise reaches, √(2 ln n), and turned into the share that as
// large a part has among kReferenceMachines. 1 stays 1; a share of kReferenceMachines stays what it is.
double share_among_reference(double share, int64_t machines);
// Of a machine whose distance from the others is known in deviations of theirs, by the same measure: the scores of robust z.
double share_of_deviations(double deviations, int64_t machines);

// Scores one window. One per thread.
class WindowScorer {
 public:
  WindowScorer(const Channel& channel, Distance distance, int followed, int64_t machines);

  // rows: window · inputs pointers to rows of all machines; members: those to compare. Members without data in the window are left out. Writes
  // `followed` candidates, the furthest first, and returns how many machines were compared: fewer than kFewestPeers, and nobody is a candidate.
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
  int64_t window = 0;   // seconds of one
  int64_t windows = 0;  // the first covers seconds [0, window), the next begins a second later
  int followed = 1;
  int64_t too_few = 0;          // windows in which fewer than kFewestPeers machines had data
  int64_t scored = 0;           // windows that were
  std::vector<Candidate> best;  // [window][followed]

  const Candidate* at(int64_t index) const { return best.data() + index * followed; }
};

// `channel_at` goes into the trace. Error-free for any pull; a pull shorter than a window has no windows.
Trace trace_of(const Pull& pull, const Channel& channel, size_t channel_at, int32_t peers, Distance distance, int followed);

// Without a scored window: all are as if nobody stood apart.
Trace empty_trace(const Pull& pull, const Channel& channel, size_t channel_at, int32_t peers, int followed);
// Some of its windows, in any order; `too_few` counts those only.
void score_windows(Trace& trace, const Pull& pull, const Channel& channel, Distance distance, std::span<const int64_t> windows);

// Where each metric of a channel stands in a pull; empty when one is missing.
std::vector<size_t> places_in(const Pull& pull, const Channel& channel);

}  // namespace longhaul::detect
