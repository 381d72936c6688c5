#include "plan/reliability/goodput.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/clock.h"

namespace longhaul::plan {

double mean_to_failure_s(const Cluster& cluster) {
  const double a_day = cluster.nodes() * cluster.failures_per_node_day;
  return a_day > 0 ? 86400 / a_day : std::numeric_limits<double>::infinity();
}

std::string days_text(double seconds) {
  return seconds < 3 * 86400 ? duration_text(seconds) : fmt::format("{:.1f} days", seconds / 86400);
}

double effective_share(double mean_to_failure, double interval_s, double checkpoint_s, double restart_s) {
  if (std::isinf(mean_to_failure)) return interval_s > 0 ? interval_s / (interval_s + checkpoint_s) : 1;
  return interval_s /
         (std::expm1((interval_s + checkpoint_s) / mean_to_failure) * (mean_to_failure + restart_s));
}

Goodput goodput_of(const Cluster& cluster, double tokens, double tokens_per_second) {
  Goodput goodput{.mean_to_failure_s = mean_to_failure_s(cluster)};
  if (std::isfinite(goodput.mean_to_failure_s)) {
    goodput.interval_s = std::sqrt(2 * std::max(cluster.checkpoint_s, 1e-3) * goodput.mean_to_failure_s);
    goodput.effective = effective_share(goodput.mean_to_failure_s, goodput.interval_s, cluster.checkpoint_s,
                                        cluster.restart_s);
  }
  const double seconds = tokens / (tokens_per_second * goodput.effective);
  goodput.days = seconds / 86400;
  goodput.failures = seconds / goodput.mean_to_failure_s;
  goodput.price = seconds / 3600 * static_cast<double>(cluster.gpus) * cluster.price_per_gpu_hour;
  return goodput;
}

Footprint footprint_of_plan(const Work& work, const PlanCandidate& plan, const Cluster& cluster,
                            double tokens, const Goodput& goodput) {
  PlannedWork planned{.flops = work.flops.causal() * tokens,
                      .tokens = tokens,
                      .device = cluster.device,
                      .gpus = static_cast<double>(cluster.gpus)};
  planned.mfu = plan.mfu;
  planned.overhead = 1 / goodput.effective - 1;
  planned.place = default_place();
  return planned_footprint(planned);
}

}  // namespace longhaul::plan
