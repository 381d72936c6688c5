#include "bench/models/spikes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "kernels/linear/raw.h"
#include "kernels/spikes/counts.h"
#include "kernels/spikes/event_product.h"
#include "kernels/spikes/integer_product.h"
#include "kernels/spikes/loops.h"
#include "kernels/spikes/statistics.h"

namespace longhaul::bench {
namespace {

constexpr double kTolerance = 1e-5;

// One set of weights in every form that is timed.
struct SpikeWeights {
  Tensor bf16;
  std::unique_ptr<kernels::PackedWeight> packed = std::make_unique<kernels::PackedWeight>();
  kernels::GroupWeight groups;
  std::unique_ptr<kernels::EventWeight> events;

  explicit SpikeWeights(const Tensor& wide)
      : bf16(wide.to(at::kBFloat16)), groups(1, wide.size(0), wide.size(1)) {
    groups.write(0, 0, wide, "weight");
    events = std::make_unique<kernels::EventWeight>(groups);
  }
};

struct TimedWay {
  std::string name;
  std::function<Tensor(const SpikeWeights&)> product;
  std::vector<double> milliseconds{};
};

double largest_error(const Tensor& found, const Tensor& expected) {
  const Tensor wide = expected.to(at::kDouble);
  return (found.to(at::kDouble) - wide).abs().max().item<double>() /
         std::max(1e-30, wide.abs().max().item<double>());
}

std::vector<TimedWay> ways_of(const Tensor& x, const SpikesRequest& request) {
  const Tensor x_bf16 = x.to(at::kBFloat16);
  const double k = request.k;
  return {
      {"bf16",
       [x_bf16](const SpikeWeights& w) {
         return kernels::linear_output(x_bf16, w.bf16, {}, {.copies = w.packed.get(), .version = 1});
       }},
      {"whole numbers", [x, k](const SpikeWeights& w) { return kernels::integer_linear(x, k, w.groups); }},
      {"events, counts",
       [x, k](const SpikeWeights& w) {
         return kernels::event_linear(x, k, *w.events, kernels::Events::kCounts).y_to;
       }},
      {"events, spikes", [x, k](const SpikeWeights& w) {
         return kernels::event_linear(x, k, *w.events, kernels::Events::kSpikes).y_to;
       }}};
}

}  // namespace

bool SpikesResult::correct() const {
  return std::ranges::all_of(
      ways, [](const SpikesWay& way) { return way.name == "bf16" || way.error <= kTolerance; });
}

SpikesResult measure_spikes(const SpikesRequest& request) {
  const at::NoGradGuard no_gradient;
  const auto generator = at::detail::createCPUGenerator(request.seed);
  const auto normal = [&](int64_t rows, int64_t columns) {
    return at::randn({rows, columns}, generator, at::TensorOptions().dtype(at::kFloat));
  };
  const Tensor x = normal(request.tokens, request.in);
  std::vector<SpikeWeights> weights;
  for (int64_t i = 0; i < request.copies; ++i)
    weights.emplace_back(normal(request.out, request.in).mul(0.02));
  std::vector<TimedWay> ways = ways_of(x, request);
  for (int64_t run = 0; run <= request.runs; ++run) {
    for (TimedWay& way : ways) {
      const Stopwatch watch;
      for (const SpikeWeights& each : weights) way.product(each);
      if (run > 0) way.milliseconds.push_back(watch.milliseconds() / static_cast<double>(request.copies));
    }
  }
  SpikesResult result{.instructions = kernels::integer_instructions()};
  const SpikeWeights& first = weights.front();
  const Tensor simulated =
      kernels::spiked(x, request.k).to(at::kDouble).matmul(first.groups.wide(0).to(at::kDouble).t());
  for (TimedWay& way : ways) {
    std::ranges::sort(way.milliseconds);
    const double median = way.milliseconds[way.milliseconds.size() / 2];
    result.ways.push_back({.name = way.name,
                           .milliseconds = median,
                           .over_bf16 = result.ways.empty() ? 1 : result.ways[0].milliseconds / median,
                           .error = largest_error(way.product(first), simulated)});
  }
  kernels::SpikeStatistics statistics(kernels::Coding::kSignedBits);
  statistics.add("x", kernels::spike_counts(x, request.k).count_tc);
  const kernels::SpikeSums sums = statistics.total();
  result.silent_share = sums.silent_share(), result.mean_spikes = sums.mean_spikes();
  result.sparsity = sums.sparsity();
  const auto rows = [&](kernels::Events events) {
    return static_cast<double>(kernels::event_linear(x, request.k, *first.events, events).events) /
           static_cast<double>(x.numel());
  };
  result.rows_by_counts = rows(kernels::Events::kCounts);
  result.rows_by_spikes = rows(kernels::Events::kSpikes);
  return result;
}

nlohmann::ordered_json to_json(const SpikesRequest& request, const SpikesResult& result) {
  nlohmann::ordered_json json{{"benchmark", "spikes"},
                              {"tokens", request.tokens},
                              {"in", request.in},
                              {"out", request.out},
                              {"copies", request.copies},
                              {"k", request.k},
                              {"instructions", result.instructions},
                              {"silent_share", result.silent_share},
                              {"mean_spikes", result.mean_spikes},
                              {"sparsity", result.sparsity},
                              {"rows_added_by_counts", result.rows_by_counts},
                              {"rows_added_by_spikes", result.rows_by_spikes},
                              {"correct", result.correct()}};
  for (const SpikesWay& way : result.ways) {
    json["ways"].push_back({{"name", way.name},
                            {"milliseconds", way.milliseconds},
                            {"speed_over_bf16", way.over_bf16},
                            {"error", way.error}});
  }
  return json;
}

observe::Table table_of(const SpikesRequest& request, const SpikesResult& result) {
  using observe::Align;
  observe::Table table(
      fmt::format("[{} × {}] · [{} × {}], k = {:g}, {}: {:.1f} % of counts are silent, {:.2f} spikes each",
                  request.tokens, request.in, request.in, request.out, request.k, result.instructions,
                  100 * result.silent_share, result.mean_spikes),
      {{"product"},
       {"ms", Align::kRight},
       {"speed over bf16", Align::kRight},
       {"rows added", Align::kRight},
       {"error", Align::kRight}});
  for (const SpikesWay& way : result.ways) {
    const double rows = way.name == "events, counts"   ? result.rows_by_counts
                        : way.name == "events, spikes" ? result.rows_by_spikes
                                                       : 1;
    table.row({way.name, fmt::format("{:.4f}", way.milliseconds), fmt::format("{:.2f}", way.over_bf16),
               fmt::format("{:.0f} %", 100 * rows), fmt::format("{:.1e}", way.error)});
  }
  return table;
}

}  // namespace longhaul::bench
