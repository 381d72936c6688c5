// Passes: a schedule (layout/schedule.h) run over the micro-batches that a Task prepared. One rank without neighbours has a schedule too.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "parallel/pipeline.h"
#include "train/task.h"

namespace longhaul::train {

class Passes {
 public:
  struct Options {
    int64_t step = 0;
    uint64_t seed = 0;
    bool training = true;
    std::function<void(const std::string& block, const Tensor& output)> inspect{};
  };
  Passes(Task& task, const parallel::Ranks& ranks, Options options) : task_(task), ranks_(ranks), options_(std::move(options)) {}

  void train(int64_t micro_batches);    // forward and backward; gradients are added up in the task's parameters
  void forward(int64_t micro_batches);  // alone, without a graph

  // Sums over the micro-batches whose last stage this rank ran, and of the layers it has.
  double loss() const { return sum_of(losses_); }
  double auxiliary_loss() const { return sum_of(auxiliary_losses_); }
  // Of the passes of this rank's layers: a statistic (model/context.h), and how often the experts of each router with a bias were chosen.
  Metric statistic(const std::string& name) const;
  const std::map<std::string, Tensor>& choices_of_routers() const { return choices_of_routers_; }

 private:
  static double sum_of(const std::vector<Tensor>& scalars);
  void run(const layout::Schedule& schedule);
  Tensor forward_stage(int64_t chunk, int64_t micro_batch, const Tensor& entering, bool last);

  Task& task_;
  const parallel::Ranks& ranks_;
  Options options_;
  std::map<std::string, std::vector<Tensor>> statistics_;
  std::map<std::string, Tensor> choices_of_routers_;
  std::vector<Tensor> losses_, auxiliary_losses_;  // fp64 scalars; read when all passes are made, for a device may lag behind
};

}  // namespace longhaul::train
