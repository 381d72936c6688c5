// The interval between checkpoints that loses the least time, to saving and to repeated work after failures.
//
//   Young (1974):  τ = sqrt(2 C M)
//   Daly (2006):   τ = sqrt(2 C M) · (1 + sqrt(C / 2M) / 3 + C / 2M / 9) − C for C < 2M, else M
//
// C: the training time that one checkpoint costs (for a background write: how long training is blocked); M:
// mean time to failure of the whole job; all in seconds, τ without C itself.
#pragma once

#include <cstdint>

namespace longhaul::plan {

double young_interval_s(double checkpoint_s, double mean_to_failure_s);
double daly_interval_s(double checkpoint_s, double mean_to_failure_s);

// Estimates the mean time to failure of a job from `failures` in `trained_s` and from the prior expectation,
// which has the weight of one failure.
double observed_mean_to_failure_s(double expected_s, double trained_s, int64_t failures);

}  // namespace longhaul::plan
