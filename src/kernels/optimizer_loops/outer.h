// The arithmetic of outer loops on a run of elements (docs/sources/co2.md §2, §8), in one pass over memory.
// Of each element: the weight w of this worker; the anchor x, which all workers agree on and began the round
// with; the outer momentum m; and s, the sum over workers of their x - w of a round.
//
//   g ← scale s            scale: 1 / workers, over the staleness gap, and over the learning rate of steps
//                          where momenta are in units of it
//   m ← β m + g            and within ±clip
//   d ← m                  Nesterov's: g + β m
//   s ← x - w              where `leaves_difference`: with the x from before, for the next sum
//   x ← x - step d
//   w ← x                  kReplaced: what the worker has learnt since is left out
//       w + y - step d     kCorrected: where it stood when it sent y is now x,
//           and what it has learnt since stays whole
//       x + mix (w - x)    kMixed
//
// Raw pointers, one thread, no tensors, as loops.h, whose rules hold: compiled for several instruction sets,
// which all give the same bits. Callers share stretches among threads, whose sums are then added in order;
// those of a stretch are fp64, in sixteen interleaved ones.
#pragma once

#include <cstdint>

namespace longhaul::kernels {

template <class Real>
struct OuterRun {
  Real* anchor = nullptr;
  Real* momentum = nullptr;  // null: none is kept, β is 0
  Real* sums = nullptr;
  Real* sent = nullptr;  // y; null: not kept
  Real* weight = nullptr;
  int64_t count = 0;
};

enum class OuterMerge { kReplaced, kCorrected, kMixed };

struct OuterNumbers {
  double scale = 1, momentum = 0, step = 1;
  double clip = 0;  // 0: none
  bool nesterov = false, leaves_difference = false;
  OuterMerge merge = OuterMerge::kReplaced;
  double mix = 0;
};

struct OuterSums {  // of squares of g, of m, of step d; and how many m were clipped
  double gradient = 0, momentum = 0, movement = 0, clipped = 0;
  OuterSums& operator+=(const OuterSums& other);
};

template <class Real>
struct OuterLoops {
  OuterSums (*update)(const OuterRun<Real>& run, const OuterNumbers& numbers) = nullptr;
  // s ← x - w, y too; and w ← x where `returns`: nothing has arrived.
  void (*difference)(const OuterRun<Real>& run, bool returns) = nullptr;
  double (*distance)(const OuterRun<Real>& run) = nullptr;  // the sum of (x - w)²
};

template <class Real>
const OuterLoops<Real>& outer_loops();  // of the set that block_kernels() names

}  // namespace longhaul::kernels
