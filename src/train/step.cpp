#include "train/step.h"

#include <cmath>
#include <numeric>

#include "base/clock.h"
#include "base/memory_purpose.h"
#include "optim/gradient_norm.h"
#include "parallel/collectives.h"

namespace longhaul::train {
namespace {

model::Context context_of(Task& task, model::ParallelOps& ops, int64_t step, int64_t micro_batch, uint64_t seed) {
  model::Context context(ops, task.precision());
  context.seed = seed;
  context.step = step;
  context.micro_batch = micro_batch;
  return context;
}

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
std::optional<BadValue> first_bad_block(Task& task, const parallel::Ranks& ranks, int64_t step, const StepOptions& options,
                                        int64_t micro_batches) {
  const at::NoGradGuard no_gradient;
  const MemoryPurposeScope scope(MemoryPurpose::kActivations);
  std::optional<BadValue> bad;
  for (int64_t m = 0; m < micro_batches; ++m) {  // all of them: on other ranks it may stand elsewhere, and they go together
    model::Context context = context_of(task, ranks.ops(), step, m, options.seed);
    context.inspect = [&](const std::string& block, const Tensor& output) {
      if (bad || output.isfinite().all().item<bool>()) return;
      bad = BadValue{block, "output", block == "loss" ? "loss" : "forward"};
    };
    forward_through_stages(task, context, ranks, m);
  }
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

Tensor forward_through_stages(Task& task, model::Context& context, const parallel::Ranks& ranks, int64_t micro_batch) {
  const layout::MeshRank& place = ranks.place();
  const int64_t stage = place.stage();
  if (place.last_stage() && stage == 0) return task.forward(context, micro_batch, {});
  comm::Communicator& pipeline = ranks.groups()->over({layout::Axis::kPp});
  Tensor entering;
  if (stage > 0) {
    const StageInput input = task.stage_input(micro_batch);
    entering = parallel::receive_on(pipeline, stage - 1, input.sizes, input.type, "hidden states");
  }
  const Tensor leaving = task.forward(context, micro_batch, entering);
  return place.last_stage() ? leaving : parallel::send_on(pipeline, stage + 1, leaving, "hidden states");
}

StepResult run_step(Task& task, optim::Optimizer& optimizer, parallel::Ranks& ranks, int64_t step, const StepOptions& options) {
  StepResult result;
  model::ParallelOps& ops = ranks.ops();
  const Stopwatch data_watch;
  result.work = task.prepare(step);
  result.data_wait_milliseconds = data_watch.milliseconds();
  result.work.weight = ranks.sum_over_replicas(result.work.weight);
  result.work.tokens = std::llround(ranks.sum_over_replicas(static_cast<double>(result.work.tokens)));
  const double scale = result.work.weight > 0 ? 1.0 / result.work.weight : 0.0;

  ranks.begin_step(task.parameters());
  std::vector<Tensor> losses, auxiliary_losses;
  for (int64_t m = 0; m < result.work.micro_batches; ++m) {
    const MemoryPurposeScope scope(MemoryPurpose::kActivations);
    model::Context context = context_of(task, ops, step, m, options.seed);
    const Tensor loss = forward_through_stages(task, context, ranks, m);
    losses.push_back(loss.detach().to(at::kDouble));
    for (const auto& [block, auxiliary] : context.auxiliary_losses) auxiliary_losses.push_back(auxiliary.to(at::kDouble));
    if (m + 1 == result.work.micro_batches) task.parameters().all_announced();
    loss.backward();  // auxiliary losses are part of the graph
  }
  // Every tensor rank has the whole loss of its tokens; auxiliary losses are of its own tokens.
  result.loss = ranks.sum(sum_of(losses)) * scale / static_cast<double>(ops.tensor_ranks());
  result.auxiliary_loss = ranks.sum(sum_of(auxiliary_losses)) * scale;

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
