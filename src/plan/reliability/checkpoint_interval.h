// How often a checkpoint pays: the interval that loses least time, to saving and to work done again after failures.
//
//   Young (1974):  τ = sqrt(2 C M)
//   Daly (2006):   τ = sqrt(2 C M) · (1 + sqrt(C / 2M) / 3 + C / 2M / 9) − C for C < 2M, else M
//
// C: what one checkpoint takes of training's time (of one written behind: how long training stands still); M: mean time to failure of the
// whole job; all in seconds, τ without C itself.
#pragma once

#include <cstdint>

namespace longhaul::plan {

double young_interval_s(double checkpoint_s, double mean_to_failure_s);
double daly_interval_s(double checkpoint_s, double mean_to_failure_s);

// Mean time to failure from what a job has shown: `failures` in `trained_s`, and what was expected before, which counts as much as one
// failure.
double observed_mean_to_failure_s(double expected_s, double trained_s, int64_t failures);

}  // namespace longhaul::plan
