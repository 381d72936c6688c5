// Passes: runs a schedule (layout/schedule/schedule.h) over the micro-batches that a Task has prepared. A
// single rank without pipeline neighbours has a schedule too.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "parallel/pipeline/pipeline.h"
#include "train/task.h"

namespace longhaul::train {

class Passes final : private parallel::StageCalls {
 public:
  struct Options {
    int64_t step = 0;
    uint64_t seed = 0;
    bool training = true;
    std::function<void(const std::string& block, const Tensor& output)> inspect{};
    double auxiliary_scale = 1;  // StepWork::auxiliary_scale() of the whole step
    // Which of the step's micro-batches these are: of which replica of the worker (this rank's own), and how
    // many it has in the step, where not all are run.
    std::optional<int64_t> replica{}, micro_batches{};
  };
  Passes(Task& task, const parallel::Ranks& ranks, Options options)
      : task_(task), ranks_(ranks), options_(std::move(options)) {}

  // Runs this rank's list of the schedule. Gradients accumulate in the task's parameters where it trains.
  void run(const layout::Schedule& schedule);
  // the recipe's schedule of forward and backward passes
  void train(int64_t micro_batches) { run(layout::make_schedule(ranks_.place().pipeline(), micro_batches)); }
  // forward passes only, without an autograd graph
  void forward(int64_t micro_batches) {
    run(layout::forward_schedule(ranks_.place().pipeline(), micro_batches));
  }

  // Sums over the micro-batches whose last stage this rank ran, and over the layers that it has.
  double loss() const { return sum_of(losses_); }
  double auxiliary_loss() const { return sum_of(auxiliary_losses_); }
  // The same values for each micro-batch, and the terms that statistic() adds up; empty where this rank has
  // none.
  std::vector<double> losses() const { return by_micro_batch(losses_); }
  std::vector<double> auxiliary_losses() const { return by_micro_batch(auxiliary_losses_); }
  std::vector<double> statistics(const std::string& name) const;
  // From the passes of this rank's layers: a statistic (model/context.h), and how often each router with a
  // bias chose its experts.
  Metric statistic(const std::string& name) const;
  const std::map<std::string, Tensor>& choices_of_routers() const { return choices_of_routers_; }

 private:
  // fp64 scalars of micro-batches. They are read after all passes, since a device may lag behind the host.
  struct Scalars {
    std::vector<Tensor> values;
    std::vector<int64_t> micro_batches;
    void add(const Tensor& value, int64_t micro_batch) {
      values.push_back(value.to(at::kDouble));
      micro_batches.push_back(micro_batch);
    }
  };
  static std::vector<double> fetched(const Scalars& scalars);
  static double sum_of(const Scalars& scalars);
  static std::vector<double> by_micro_batch(const Scalars& scalars);
  Tensor forward_chunk(int64_t chunk, int64_t micro_batch, const Tensor& entering) override;
  Tensor input_memory(int64_t micro_batch) override;

  Task& task_;
  const parallel::Ranks& ranks_;
  Options options_;
  int64_t first_micro_batch_ = 0;  // its number among those of all replicas
  std::shared_ptr<model::Context::ChoicesSoFar> choices_so_far_ =
      std::make_shared<model::Context::ChoicesSoFar>();
  std::map<std::string, Scalars> statistics_;
  std::map<std::string, Tensor> choices_of_routers_;
  Scalars losses_, auxiliary_losses_;
};

}  // namespace longhaul::train
