#include "train/step.h"

#include <cmath>
#include <numeric>

#include "base/clock.h"
#include "optim/gradient_norm.h"
#include "parallel/pipeline.h"

namespace longhaul::train {
namespace {

// What a pass of this step is run with.
class StagePasses {
 public:
  StagePasses(Task& task, parallel::Ranks& ranks, int64_t step, uint64_t seed) : task_(task), ranks_(ranks), step_(step), seed_(seed) {}
  std::function<void(const std::string&, const Tensor&)> inspect{};
  std::vector<Tensor> losses, auxiliary_losses;  // fp64 scalars, of what this rank ran

  void run(const layout::Schedule& schedule) {
    const int64_t last = schedule.pipeline.stages() - 1;
    const parallel::StageCalls calls{
        .forward = [&](int64_t chunk, int64_t micro_batch,
                       const Tensor& entering) { return forward(chunk, micro_batch, entering, ranks_.place().stage_of(chunk) == last); },
        .entering =
            [&](int64_t micro_batch) {
              const StageInput input = task_.stage_input(micro_batch);
              return at::empty(input.sizes, at::TensorOptions().dtype(input.type).device(task_.parameters().device()));
            }};
    parallel::run_schedule(schedule, ranks_, task_.parameters(), calls);
  }

 private:
  Tensor forward(int64_t chunk, int64_t micro_batch, const Tensor& entering, bool last) {
    model::Context context(ranks_.ops(), task_.precision());
    context.seed = seed_;
    context.step = step_;
    context.micro_batch = micro_batch;
    context.chunk = chunk;
    context.inspect = inspect;
    const Tensor leaving = task_.forward(context, micro_batch, entering);
    if (last) losses.push_back(leaving.detach().to(at::kDouble));
    for (const auto& [block, auxiliary] : context.auxiliary_losses) auxiliary_losses.push_back(auxiliary.to(at::kDouble));
    return leaving;
  }

  Task& task_;
  parallel::Ranks& ranks_;
  int64_t step_;
  uint64_t seed_;
};

// Means over all ranks.
observe::Metrics metrics_of(Task& task, const parallel::Ranks& ranks) {
  const auto own = task.step_metrics();
  if (own.empty()) return {};
  const Tensor sums = at::empty({static_cast<int64_t>(own.size()), 2}, at::kDouble);
  double* at = sums.mutable_data_ptr<double>();
  for (const auto& [name, metric] : own) {
    *at++ = metric.sum;
    *at++ = metric.weight;
  }
  ranks.sum(sums);
  observe::Metrics means;
  at = sums.mutable_data_ptr<double>();
  for (const auto& [name, metric] : own) {
    if (at[1] != 0) means[name] = at[0] / at[1];
    at += 2;
  }
  return means;
}

// Runs the forward passes again and names the first block whose output is not finite.
std::optional<BadValue> first_bad_block(Task& task, parallel::Ranks& ranks, int64_t step, const StepOptions& options,
                                        int64_t micro_batches) {
  std::optional<BadValue> bad;
  StagePasses passes(task, ranks, step, options.seed);
  passes.inspect = [&](const std::string& block, const Tensor& output) {
    if (bad || output.isfinite().all().item<bool>()) return;
    bad = BadValue{block, "output", block == "loss" ? "loss" : "forward"};
  };
  // All of them: on other ranks it may stand elsewhere, and they go together.
  passes.run(layout::forward_schedule(ranks.place().pipeline(), micro_batches));
  return bad;
}

// Of fp64 scalars. They are read once, behind the whole step's work: a GPU is not waited for between micro-batches.
double sum_of(const std::vector<Tensor>& scalars) {
  if (scalars.empty()) return 0;
  const Tensor fetched = at::stack(scalars).cpu();
  const double* const value = fetched.const_data_ptr<double>();
  return std::accumulate(value, value + fetched.numel(), 0.0);
}

std::string layer_of(const std::string& tensor) {
  const size_t cut = tensor.rfind('.');
  return cut == std::string::npos ? tensor : tensor.substr(0, cut);
}

}  // namespace

StepResult run_step(Task& task, optim::Optimizer& optimizer, parallel::Ranks& ranks, int64_t step, const StepOptions& options) {
  StepResult result;
  model::ParallelOps& ops = ranks.ops();
  const Stopwatch data_watch;
  result.work = task.prepare(step);
  result.data_wait_milliseconds = data_watch.milliseconds();
  result.work.weight = ranks.sum_over_replicas(result.work.weight);
  const double scale = result.work.weight > 0 ? 1.0 / result.work.weight : 0.0;

  ranks.begin_step(task.parameters());
  StagePasses passes(task, ranks, step, options.seed);
  passes.run(layout::make_schedule(ranks.place().pipeline(), result.work.micro_batches));
  // Every tensor rank has the whole loss of its tokens; auxiliary losses are of its own tokens.
  result.loss = ranks.sum(sum_of(passes.losses)) * scale / static_cast<double>(ops.tensor_ranks());
  result.auxiliary_loss = ranks.sum(sum_of(passes.auxiliary_losses)) * scale;

  result.metrics = metrics_of(task, ranks);

  ranks.sum_gradients(task.parameters());
  if (options.with_gradients) options.with_gradients();
  const optim::GradientNorm norm = optim::gradient_norm(task.parameters(), scale, [&](const Tensor& squares) { ranks.sum(squares); });
  result.gradient_norm = norm.norm;
  if (!norm.finite || !std::isfinite(result.loss)) {
    result.skipped = first_bad_block(task, ranks, step, options, result.work.micro_batches);
    if (!result.skipped && norm.finite) result.skipped = BadValue{"loss", "output", "loss"};
    if (!result.skipped) result.skipped = BadValue{layer_of(norm.first_nonfinite), norm.first_nonfinite, "gradient"};
    task.parameters().zero_gradients();
    return result;
  }
  optimizer.step({.lr = options.lr, .gradient_scale = scale * optim::clip_factor(norm.norm, options.clip_norm), .zero_gradients = true},
                 [&](layout::AxisSet over, const Tensor& sums) { ranks.sum_over(over, sums); });
  return result;
}

}  // namespace longhaul::train
