#include "plan/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/statistics.h"
#include "observe/events/run_history.h"
#include "recipe/load.h"

namespace longhaul::plan {

// plan_test Calibration.* fits them again. A100: the rows of arXiv 2104.04473 and 2205.05198. H100: those of
// Megatron-LM's README without a pipeline, because it does not give the stages of the others. The shares of
// the peak that attention reaches are published ones, not from any step: FlashAttention-2 50 to 73 % of an
// A100 (arXiv 2307.08691); on H100 from 34 % (the same, both passes) to 60 % (cuDNN, forward; arXiv
// 2407.08608).
Efficiency efficiency_of(const Accelerator& device) {
  if (device.fp8_flops > 0) {
    return {.products = 0.64,
            .memory = 0.6,
            .layer_s = 500e-6,
            .source = "fitted on Megatron-LM's H100 rows without a pipeline (github.com/NVIDIA/Megatron-LM)",
            .attention = 0.45};
  }
  return {.products = 0.78,
          .memory = 0.9,
          .layer_s = 0,
          .source = "fitted on the A100 rows of arXiv 2104.04473 and 2205.05198",
          .attention = 0.6,
          .stop_s = 500e-6};
}

double median_step_seconds(const observe::RunHistory& run) {
  std::vector<double> took;
  for (const observe::StepReport& step : run.steps) took.push_back(step.milliseconds * 1e-3);
  LONGHAUL_ASSERT(!took.empty());
  return median(std::move(took));
}

Efficiency calibrated(const std::filesystem::path& run, Cluster cluster) {
  const recipe::Recipe recipe = recipe::load(run / "recipe.toml").recipe;
  const observe::RunHistory history = observe::read_run(run);
  if (history.steps.empty()) {
    throw Error({.code = ExitCode::kData,
                 .what = "the run has no step to calibrate with",
                 .expected = "a run that has done steps",
                 .where = run.string()});
  }
  const double seconds = median_step_seconds(history);
  const PlanLayout layout = layout_of_recipe(recipe);
  const Work work = work_of(recipe.model, recipe.train.sequence);
  const Efficiency base = cluster.efficiency;
  double low = 1e-8, high = 1e4;  // faster with a higher factor
  for (int i = 0; i < 60; ++i) {
    const double middle = std::sqrt(low * high);
    cluster.efficiency = scaled(base, middle);
    (step_parts(work, layout, recipe.train.batch, cluster, default_practice(layout)).total() > seconds
         ? low
         : high) = middle;
  }
  Efficiency efficiency = scaled(base, low);
  efficiency.source = fmt::format("calibrated with {}", run.string());
  return efficiency;
}

double mean_error(const std::vector<PublishedRow>& rows, const Efficiency& efficiency) {
  double sum = 0;
  for (const PublishedRow& row : rows) sum += std::abs(predicted(row, efficiency) / row.seconds - 1);
  return rows.empty() ? 0 : sum / static_cast<double>(rows.size());
}

Efficiency fitted(const std::vector<PublishedRow>& rows, double attention) {
  Efficiency best;
  double least = std::numeric_limits<double>::infinity();
  for (int products = 50; products <= 88; products += 2) {
    // The range that copies and sums of long arrays reach on an accelerator's memory.
    for (int memory = 60; memory <= 90; memory += 5) {
      for (const double layer_s : {0.0, 50e-6, 100e-6, 200e-6, 300e-6, 400e-6, 500e-6, 700e-6, 1e-3}) {
        // Waiting for launched work and launching again takes no longer.
        for (const double stop_s : {0.0, 200e-6, 500e-6}) {
          const Efficiency one{.products = products * 0.01,
                               .memory = memory * 0.01,
                               .layer_s = layer_s,
                               .source = "fitted",
                               .attention = attention,
                               .stop_s = stop_s};
          const double error = mean_error(rows, one);
          if (error < least) least = error, best = one;
        }
      }
    }
  }
  return best;
}

namespace {

// The share, in whole percents, with the least mean error of the rows.
template <class Set>
double fitted_share(std::vector<PublishedRow> rows, int from, int to, int step, Set set) {
  double best = 1, least = std::numeric_limits<double>::infinity();
  for (int percent = from; percent <= to; percent += step) {
    for (PublishedRow& row : rows) set(row, percent / 100.0);
    const double error = errors_of(rows).mean;
    if (error < least) least = error, best = percent / 100.0;
  }
  return best;
}

}  // namespace

double fitted_reach(std::vector<PublishedRow> rows) {
  return fitted_share(std::move(rows), 70, 115, 1,
                      [](PublishedRow& row, double share) { row.reach = share; });
}

double fitted_layer_exposed(std::vector<PublishedRow> rows) {
  return fitted_share(std::move(rows), 0, 100, 5,
                      [](PublishedRow& row, double share) { row.practice.layer_exposed = share; });
}

}  // namespace longhaul::plan
