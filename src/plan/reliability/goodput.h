// Goodput: what remains of a fast step over weeks, with failures, restarts and checkpoints; then days, price,
// energy and carbon. Failures are memoryless and independent for each node; after one, training continues
// from the last checkpoint after restart_s. Sources: arXiv 2410.21680 (rates), Young 1974 (interval).
#pragma once

#include <cstdint>
#include <string>

#include "plan/footprint/footprint.h"
#include "plan/search/search.h"

namespace longhaul::plan {

struct Goodput {
  double mean_to_failure_s = 0;  // of the whole job; infinity without failures
  double interval_s = 0;         // between checkpoints: sqrt(2 · checkpoint_s · mean_to_failure_s)
  double effective = 1;          // useful share of the time
  double days = 0;               // for all tokens
  double price = 0;              // 0: unknown
  double failures = 0;           // expected number
};

double mean_to_failure_s(const Cluster& cluster);
std::string days_text(double seconds);  // "12.5 days" from three days on, else as duration_text()
// Useful share when each interval of work and its checkpoint is repeated until it ends without a failure: Δ /
// ((e^{λ(Δ+w)} − 1)(1/λ + u)).
double effective_share(double mean_to_failure_s, double interval_s, double checkpoint_s, double restart_s);

Goodput goodput_of(const Cluster& cluster, double tokens, double tokens_per_second);
Footprint footprint_of_plan(const Work& work, const PlanCandidate& plan, const Cluster& cluster,
                            double tokens, const Goodput& goodput);

}  // namespace longhaul::plan
