#include "train/step.h"

#include <bit>
#include <cmath>
#include <limits>

#include "base/clock.h"
#include "base/process/fault_point.h"
#include "kernels/operator_clock.h"
#include "model/experts/router_bias.h"
#include "model/experts/router_quantile.h"
#include "optim/gradient_norm.h"
#include "optim/gradient_norm_by_rows.h"
#include "optim/step_measures.h"
#include "tensor/content_hash.h"
#include "train/passes.h"
#include "train/step_arena.h"

namespace longhaul::train {
namespace {

constexpr const char* kStatistics[] = {model::kBusiestOverMean, model::kDroppedShare};
using observe::SpanKind;
using observe::SpanScope;

// Means over all ranks. Those of experts stand on every rank, whether its layers have any or not. in_call_s:
// how long this rank was in the sum, the first call that all of a worker's ranks make behind their passes.
observe::Metrics metrics_of(Task& task, const Passes& passes, const parallel::Ranks& ranks,
                            double& in_call_s) {
  auto own = task.step_metrics();
  for (const char* const name : kStatistics) own[name] = passes.statistic(name);
  const Tensor sums = at::empty({static_cast<int64_t>(own.size()), 2}, at::kDouble);
  double* at = sums.mutable_data_ptr<double>();
  for (const auto& [name, metric] : own) {
    *at++ = metric.sum;
    *at++ = metric.weight;
  }
  const Stopwatch watch;
  ranks.sum(sums, "metrics");
  in_call_s = watch.seconds();
  observe::Metrics means;
  at = sums.mutable_data_ptr<double>();
  for (const auto& [name, metric] : own) {
    if (at[1] != 0) means[name] = at[0] / at[1];
    at += 2;
  }
  return means;
}

// Of all ranks: losses, auxiliary losses, and means of what else is measured.
struct Sums {
  double loss = 0, auxiliary_loss = 0;
  observe::Metrics metrics;
  double in_call_s = 0;
};

Sums sums_of(Task& task, const Passes& passes, const parallel::Ranks& ranks) {
  Sums sums;
  sums.metrics = metrics_of(task, passes, ranks, sums.in_call_s);
  const parallel::GradientTree* const tree = ranks.tree();
  if (tree == nullptr) {
    sums.loss = ranks.sum(passes.loss(), "loss");
    sums.auxiliary_loss = ranks.sum(passes.auxiliary_loss(), "auxiliary loss");
    return sums;
  }
  // What passes have measured once more, in the order of the tree; how many they were is exact in any.
  parallel::GradientTree::Rows rows{passes.losses(), passes.auxiliary_losses()};
  std::vector<double> counts;
  for (const char* const name : kStatistics) {
    rows.push_back(passes.statistics(name));
    counts.push_back(ranks.sum(passes.statistic(name).weight, "number of statistics"));
  }
  const std::vector<double> of_all = tree->sums_of(rows, "losses");
  sums.loss = of_all[0], sums.auxiliary_loss = of_all[1];
  for (size_t i = 0; i < std::size(kStatistics); ++i) {
    if (counts[i] > 0) sums.metrics[kStatistics[i]] = of_all[2 + i] / counts[i];
  }
  return sums;
}

// All leave a call at about the same time, so whoever came last was in it the shortest: no two clocks are
// compared.
double longest_less_shortest(const parallel::Ranks& ranks, double in_call_s) {
  const Tensor ends = at::tensor({in_call_s, -in_call_s}, at::kDouble);
  ranks.groups()->world().all_reduce(ends, comm::Reduction::kMax, {.name = "entry skew"}).wait();
  const double* const of_all = ends.const_data_ptr<double>();
  return of_all[0] + of_all[1];
}

// Runs the forward passes again and names the first block whose output is not finite.
std::optional<BadValue> first_bad_block(Task& task, const parallel::Ranks& ranks, int64_t step,
                                        const StepOptions& options, int64_t micro_batches) {
  std::optional<BadValue> bad;
  const auto inspect = [&](const std::string& block, const Tensor& output) {
    if (bad || output.isfinite().all().item<bool>()) return;
    bad = BadValue{block, "output", block == "loss" ? "loss" : "forward"};
  };
  // All of them: on other ranks it may stand elsewhere, and they go together.
  Passes(task, ranks, {.step = step, .seed = options.seed, .inspect = inspect}).forward(micro_batches);
  return bad;
}

// The routers' biases by the choices, or the thresholds, of all ranks.
void move_router_biases(model::ParameterSet& parameters, const Passes& passes, const parallel::Ranks& ranks,
                        const recipe::RouterOptions& router) {
  std::map<std::string, Tensor> choices = passes.choices_of_routers();
  if (choices.empty()) return;  // on all ranks of the stage
  std::vector<Tensor> counts;
  for (const auto& [name, count] : choices) counts.push_back(count);
  const Tensor all = at::stack(counts);
  using enum layout::Axis;
  ranks.reduce_over({kDp, kCp, kTp}, all, comm::Reduction::kSum);
  int64_t at = 0;
  for (auto& [name, count] : choices) {
    count = all[at++];
    ranks.sum_over_stages(*parameters.holder_of(name), count, "choices of " + name);
  }
  if (router.choice == recipe::RouterChoice::kQuantile)
    return model::move_router_thresholds(parameters, choices, router.quantile_memory);
  model::move_router_biases(parameters, choices, router.bias_rate);
}

optim::GradientNorm norm_of(Task& task, const parallel::Ranks& ranks, double scale) {
  if (ranks.tree() == nullptr)
    return optim::gradient_norm(task.parameters(), scale,
                                [&](const Tensor& squares) { ranks.sum(squares, "gradient norm"); });
  return optim::gradient_norm_by_rows(task.parameters(), scale,
                                      [&](layout::AxisSet over, const Tensor& squares, comm::Reduction how) {
                                        ranks.reduce_over(over, squares, how);
                                      });
}

// Of one micro-batch of each replica, at this step's weights, an equal share of the step's weight; leaves no
// gradient behind.
std::optional<optim::NormOfBatch> norm_of_first(Task& task, parallel::Ranks& ranks, int64_t step,
                                                const StepOptions& options, const StepWork& work) {
  if (work.micro_batches < 2 || work.weight <= 0 || ranks.tree() != nullptr) return std::nullopt;
  const double share = 1 / static_cast<double>(work.micro_batches);
  ranks.begin_step(task.parameters(), 1);
  Passes(task, ranks,
         {.step = step,
          .seed = options.seed,
          .auxiliary_scale = work.auxiliary_scale(),
          .micro_batches = work.micro_batches})
      .train(1);
  ranks.sum_gradients(task.parameters());
  const optim::GradientNorm norm = norm_of(task, ranks, 1 / (work.weight * share));
  task.parameters().zero_gradients();
  if (!norm.finite) return std::nullopt;
  return optim::NormOfBatch{static_cast<double>(work.tokens) * share, norm.norm};
}

// Gradients may be finite whose squares are not: in second moments these would stay infinite for good, and
// weights there would never move again.
bool squares_are_finite(const optim::GradientNorm& norm, double clip_norm, const Precision& precision) {
  const bool wide = precision.main_gradient == at::kDouble;
  const double largest = wide ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  return norm.norm * optim::clip_factor(norm.norm, clip_norm) < std::sqrt(largest);
}

std::string layer_of(const std::string& tensor) {
  const size_t cut = tensor.rfind('.');
  return cut == std::string::npos ? tensor : tensor.substr(0, cut);
}

// The passes of a prepared step, their sums over the ranks, and the norm.
class Measurement {
 public:
  Measurement(Task& task, parallel::Ranks& ranks, int64_t step, const StepOptions& options,
              const StepWork& work)
      : task_(task),
        ranks_(ranks),
        step_(step),
        options_(options),
        passes_(task, ranks, {.step = step, .seed = options.seed, .auxiliary_scale = work.auxiliary_scale()}),
        work_(work) {
    scale_ = work.weight > 0 ? 1.0 / work.weight : 0.0;
  }
  void run(StepResult& result);
  const Passes& passes() const { return passes_; }
  const optim::GradientNorm& norm() const { return norm_; }
  double scale() const { return scale_; }
  bool finite() const {
    return norm_.finite && squares_are_finite(norm_, options_.clip_norm, task_.precision());
  }
  bool doubtful(const StepResult& result) const;
  // The bits of what this rank alone has computed, and of its share of what all have.
  std::vector<uint64_t> own_bits() const;
  uint64_t shared_bits(const StepResult& result) const;

 private:
  Task& task_;
  parallel::Ranks& ranks_;
  int64_t step_;
  const StepOptions& options_;
  Passes passes_;
  StepWork work_;
  double scale_ = 0;
  optim::GradientNorm norm_;
};

void Measurement::run(StepResult& result) {
  observe::SpanRecorder& spans = *ranks_.spans();
  fault_point("step.passes", step_);
  ranks_.begin_step(task_.parameters(), work_.micro_batches);
  StepArena::Passes in_arena(options_.arena);
  passes_.run(layout::make_schedule(ranks_.place().pipeline(), work_.micro_batches));
  in_arena.ended();
  {
    const SpanScope span(spans, SpanKind::kNumbers);
    // Every tensor rank has the whole loss of its tokens; auxiliary losses are of its own tokens.
    const Sums measured = sums_of(task_, passes_, ranks_);
    result.loss = measured.loss * scale_ / static_cast<double>(ranks_.ops().tensor_ranks());
    result.auxiliary_loss = measured.auxiliary_loss * scale_;
    result.metrics = measured.metrics;
    if (options_.measure_entry && ranks_.groups() != nullptr)
      result.entry_skew_s = longest_less_shortest(ranks_, measured.in_call_s);
  }
  {
    const SpanScope span(spans, SpanKind::kGradients);
    const kernels::OperatorFrame frame("sums of gradients over ranks");
    fault_point("step.reduce", step_);
    ranks_.sum_gradients(task_.parameters());
  }
  if (options_.with_gradients) options_.with_gradients();
  const SpanScope span(spans, SpanKind::kNorm);
  const kernels::OperatorFrame frame("gradient norm");
  norm_ = norm_of(task_, ranks_, scale_);
  result.gradient_norm = norm_.norm;
}

bool Measurement::doubtful(const StepResult& result) const {
  const bool own =
      !finite() || !std::isfinite(result.loss) || options_.doubtful(result.loss, result.gradient_norm);
  return ranks_.most(own ? 1 : 0) == 1;
}

std::vector<uint64_t> Measurement::own_bits() const {
  std::vector<uint64_t> bits;
  for (const double loss : passes_.losses()) bits.push_back(std::bit_cast<uint64_t>(loss));
  return bits;
}

uint64_t Measurement::shared_bits(const StepResult& result) const {
  uint64_t bits = std::bit_cast<uint64_t>(result.loss) ^ std::bit_cast<uint64_t>(result.gradient_norm);
  for (const auto& parameter : task_.parameters().all()) {
    if (parameter->trainable() && parameter->own.length > 0)
      bits = bits * 0x9e3779b97f4a7c15 + content_hash(parameter->own_grad);
  }
  return bits;
}

// Whether the same comes out once more; what does stands in `measured` and `result`.
SecondTry try_again(Task& task, parallel::Ranks& ranks, int64_t step, const StepOptions& options,
                    std::optional<Measurement>& measured, StepResult& result) {
  SecondTry second{.first_loss = result.loss, .first_norm = result.gradient_norm};
  const std::vector<uint64_t> own = measured->own_bits();
  const uint64_t shared = measured->shared_bits(result);
  task.parameters().zero_gradients();
  measured.emplace(task, ranks, step, options, result.work);
  measured->run(result);
  second.own_same = measured->own_bits() == own;
  second.same = ranks.most(second.own_same && measured->shared_bits(result) == shared ? 0 : 1) == 0;
  return second;
}

}  // namespace

StepResult run_step(Task& task, optim::Optimizer& optimizer, parallel::Ranks& ranks, int64_t step,
                    const StepOptions& options) {
  StepResult result;
  observe::SpanRecorder& spans = *ranks.spans();
  {
    const SpanScope span(spans, SpanKind::kData);
    const Stopwatch data_watch;
    const double in_phases_s = spans.seconds_in_task_phases();  // which are no waiting for data
    fault_point("step.data", step);
    result.work = task.prepare(step);
    result.data_wait_milliseconds = data_watch.milliseconds();
    result.data_wait_milliseconds -= 1e3 * (spans.seconds_in_task_phases() - in_phases_s);
    result.own_tokens = result.work.tokens;
  }
  result.work.weight = ranks.sum_over_replicas(result.work.weight);
  result.work.tokens = std::llround(ranks.sum_over_replicas(static_cast<double>(result.work.tokens)));

  if (options.measure_first) result.first = norm_of_first(task, ranks, step, options, result.work);
  std::optional<Measurement> measured(std::in_place, task, ranks, step, options, result.work);
  measured->run(result);
  if (options.doubtful && measured->doubtful(result)) {
    result.second_try = try_again(task, ranks, step, options, measured, result);
    result.left_out = measured->doubtful(result);
  }
  const optim::GradientNorm& norm = measured->norm();
  if (!norm.finite || !std::isfinite(result.loss)) {
    result.left_out = false;
    result.skipped = first_bad_block(task, ranks, step, options, result.work.micro_batches);
    if (!result.skipped && norm.finite) result.skipped = BadValue{"loss", "output", "loss"};
    if (!result.skipped)
      result.skipped = BadValue{layer_of(norm.first_nonfinite), norm.first_nonfinite, "gradient"};
  } else if (!measured->finite()) {
    result.left_out = false;
    result.skipped = BadValue{"all layers", "the sum of the gradients' squares", "gradient"};
  }
  if (result.skipped || result.left_out) {
    task.parameters().zero_gradients();
    return result;
  }
  {
    const SpanScope span(spans, SpanKind::kOptimizer);
    const kernels::OperatorFrame frame("optimizer");
    if (options.before_update) options.before_update();
    fault_point("step.update", step);
    const double clip = optim::clip_factor(norm.norm, options.clip_norm);
    std::optional<optim::StepMeasures> measures;
    if (options.measure_update) measures.emplace(optimizer, task.parameters());
    optimizer.step({.lr = options.lr,
                    .gradient_scale = measured->scale() * clip,
                    .decay_factor = options.decay_factor,
                    .zero_gradients = true},
                   [&](layout::AxisSet over, const Tensor& numbers, comm::Reduction how) {
                     ranks.reduce_over(over, numbers, how);
                   });
    if (measures) {
      result.metrics.merge(measures->of_step([&](const Tensor& numbers, comm::Reduction how) {
        if (ranks.groups() == nullptr) return;
        const Tensor there = numbers.to(task.parameters().device());
        ranks.groups()->world().all_reduce(there, how, {.name = "what the step did to weights"}).wait();
        if (!there.is_alias_of(numbers)) numbers.copy_(there);
      }));
      result.metrics["clip_factor"] = clip;
    }
  }
  fault_point("step.updated", step);
  const SpanScope span(spans, SpanKind::kValues);
  const kernels::OperatorFrame frame("values to ranks");
  if (options.router.biased())
    move_router_biases(task.parameters(), measured->passes(), ranks, options.router);
  ranks.share_values(task.parameters(), /*by_step=*/true);
  return result;
}

}  // namespace longhaul::train
