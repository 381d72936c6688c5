// One call of Minder as its service makes it: fifteen minutes of seven metrics of 64, 1,024 and 1,500
// machines, none faulty, so no metric ends it early. Checked against plain loops in double precision on some
// of the windows first.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/machine/machine.h"
#include "base/memory/peak_memory.h"
#include "bench/benchmark.h"
#include "bench/register.h"
#include "detect/minder/detector.h"
#include "detect/trials/trial.h"

namespace longhaul::bench {
namespace {

// The share of the furthest machine in one window, by the definition, with the autoencoder in double
// precision.
double plain_share(const detect::Pull& pull, const detect::TrainedVae& vae, size_t metric_at,
                   int64_t window) {
  const int64_t n = pull.count(), w = vae.shape.window;
  std::vector<double> rows, parameters(vae.parameters.begin(), vae.parameters.end()),
      still(static_cast<size_t>(vae.shape.latent * n), 0);
  for (int64_t t = 0; t < w; ++t)
    rows.insert(rows.end(), pull.row(metric_at, window + t), pull.row(metric_at, window + t) + n);
  detect::LstmVae<double> network(vae.shape, n);
  network.forward(parameters, rows, still, 0);
  std::vector<double> sums(static_cast<size_t>(n), 0);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double square = 0;
      for (int64_t t = 0; t < w; ++t) {
        const double difference = network.output()[static_cast<size_t>(t * n + i)] -
                                  network.output()[static_cast<size_t>(t * n + j)];
        square += difference * difference;
      }
      sums[static_cast<size_t>(i)] += std::sqrt(square);
    }
  }
  double mean = 0, square = 0;
  for (const double sum : sums) mean += sum / static_cast<double>(n);
  for (const double sum : sums) square += (sum - mean) * (sum - mean) / static_cast<double>(n);
  return detect::share_among_reference((*std::max_element(sums.begin(), sums.end()) - mean) /
                                           std::sqrt(square) / std::sqrt(static_cast<double>(n - 1)),
                                       n);
}

struct CallCosts {
  double p99_s = 0, peak_bytes = 0;  // beyond the samples
};

// Costs as a service sees them: calls come one after the other; the slowest of a hundred counts, and the most
// memory that one holds.
CallCosts costs_of(const detect::Pull& pull, const detect::Models& models, int64_t calls) {
  CallCosts costs;
  const int64_t before = reset_peak_resident_bytes();
  std::vector<double> seconds;
  for (int64_t i = 0; i < calls; ++i) seconds.push_back(detect::call(pull, models, {}).seconds);
  if (before >= 0) costs.peak_bytes = static_cast<double>(peak_resident_bytes() - before);
  std::sort(seconds.begin(), seconds.end());
  costs.p99_s = seconds[static_cast<size_t>(std::ceil(0.99 * static_cast<double>(calls))) - 1];
  return costs;
}

Result result_of(const detect::Models& models, int64_t machines_count) {
  constexpr int64_t kSeconds = 900;
  detect::Pull pull =
      detect::labelled({.machines = machines_count, .seed = 9, .fault = "none", .seconds = kSeconds}).pull;
  double error = 0;
  const auto channels = models.channels(detect::Variant::kMinder, models.metrics);
  for (const size_t metric : {0, 4}) {
    // a candidate, so that there is a score to compare
    for (int64_t s = 100; s < 110; ++s) pull.row(metric, s)[5] = 1;
    const detect::Trace trace =
        detect::trace_of(pull, channels[metric], metric, 0, detect::Distance::kEuclidean, 1);
    error = std::max(error, std::abs(static_cast<double>(trace.at(101)->share) /
                                         plain_share(pull, models.vaes[metric], metric, 101) -
                                     1));
  }
  Result result{
      .name = "detect",
      .shape = fmt::format("{} machines, {} s, {} metrics", machines_count, kSeconds, models.metrics.size()),
      .dtype = "fp32",
      .implementation = std::string(detect::vector_loops_name()),
      .error = error,
      .tolerance = 1e-3};
  const CallCosts costs = costs_of(pull, models, machines_count < 100 ? 200 : 20);
  result.peak_bytes = costs.peak_bytes;
  result.figures = {{"call_p99_seconds", costs.p99_s}};
  // Differences, squares and sums of each pair once; multiply-adds of the autoencoder: of the windows on
  // which the answer depends, and, as a call that has no rule of continuity must, of all.
  const auto machines = static_cast<double>(machines_count);
  const double each = machines * machines / 2 * (3 * 8 + 2) + machines * 2 * 1400;
  for (const bool continuous : {true, false}) {
    detect::DetectOptions options;
    options.continuous = continuous;
    const auto scored = static_cast<double>(detect::call(pull, models, options).scored);
    result.passes.push_back({.name = continuous ? "a call" : "every window",
                             .time = time_of([&] { detect::call(pull, models, options); }, 2),
                             .flops = scored * each});
  }
  return result;
}

}  // namespace

void bench_detect(const Request&, Results& into) {
  std::vector<detect::Pull> pulls;
  for (uint64_t seed = 0; seed < 4; ++seed)
    pulls.push_back(detect::labelled({.machines = 16, .seed = seed, .fault = "any"}).pull);
  detect::TrainOptions training;
  training.steps = 100;  // speed does not depend on what was learnt
  const detect::Models models = detect::train_models(pulls, training);
  for (const int64_t machines : {64, 1024, 1500}) into.push_back(result_of(models, machines));
}

}  // namespace longhaul::bench
