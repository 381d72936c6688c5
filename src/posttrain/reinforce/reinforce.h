// Reinforce: a language model learns from rewards for the answers that it writes (train.task = "reinforce";
// docs/guides/reinforcement.md). One rollout batch serves reinforce.updates optimizer steps:
//
//   prompts → a group of answers to each, by the engine, with the trainer's own weights → rewards → groups
//     that teach
//   nothing are replaced → l_old by the trainer → steps, each on its part of the prompts
//
// Log-probabilities are those of the sampling temperature everywhere. With one update a batch, l_old is what
// the step itself computes: the ratio is 1 to the bit, and no pass is spent on it.
//
// With rollouts ahead (reinforce.rollouts) a batch is generated before the steps on the batch before it, with
// the weights that these begin with, as where a second set of machines generates meanwhile. l_old is then
// what the engine said when it drew the tokens.
//
// With a critic (ppo) the values of all tokens are read when the batch comes, and every step trains the
// critic on its part of the prompts, while it is prepared.
//
// Replicas share prompts and rows. The ranks of a replica may share its heads and layers (tp, pp), because
// the engine can (generate/rank_pass.h), and no tokens or experts; ZeRO goes up to stage 2.
#pragma once

#include <filesystem>
#include <memory>

#include "kernels/saved/saved_tensors.h"
#include "language/text_stage.h"
#include "model/decoder.h"
#include "optim/schedule.h"
#include "posttrain/reinforce/critic.h"
#include "posttrain/reinforce/mini_batch.h"
#include "posttrain/reinforce/reference_model.h"
#include "posttrain/reinforce/rollout_state.h"
#include "train/task_entry.h"

namespace longhaul::posttrain {

class Reinforce final : public train::Task {
 public:
  explicit Reinforce(const train::TaskRequest& request);

  model::ParameterSet& parameters() override { return decoder_.parameters(); }
  const Precision& precision() const override { return decoder_.precision(); }
  void set_offload(std::unique_ptr<kernels::SavedTensors> offload) {
    offload_ = std::move(offload);
    decoder_.set_offload(offload_.get());
  }

  train::StepWork prepare(int64_t step) override;
  Tensor forward(model::Context& context, int64_t micro_batch, const Tensor& entering) override;
  train::StageInput stage_input(int64_t micro_batch) const override;
  std::map<std::string, train::Metric> step_metrics() override;
  std::optional<observe::Metrics> evaluate(bool whole, const std::function<bool()>& go_on) override;
  std::vector<checkpoint::StateProvider*> state() override;
  nlohmann::json data_position(int64_t step) const override;
  void require_same_data(const nlohmann::json& saved, int64_t step) const override;

 private:
  void begin_batch(int64_t step);
  RolloutBatch generated(int64_t step);  // for this step and those that share its batch
  void warm_critic(int64_t step);
  void tell_of_batch();
  void take_update(int64_t update);  // its groups and their rows become those of the step
  void score(int64_t step);
  void value_batch(int64_t step);  // by the critic, and the advantages that follow
  void score_update(int64_t step, std::vector<double> Answer::*into);
  void record_in(std::vector<double> Answer::*into);
  std::vector<std::vector<double>> gathered(const std::vector<Group*>& groups) const;
  void add_batch_metrics(std::map<std::string, train::Metric>& metrics) const;
  void write_step();

  recipe::Recipe recipe_;
  ReinforceOptions options_;
  data::Tokenizer tokenizer_;
  std::filesystem::path run_;
  const parallel::Ranks& ranks_;
  std::unique_ptr<kernels::SavedTensors> offload_;  // for the decoder's layers; null: none
  model::Decoder decoder_;
  language::TextStage stage_;
  Prompts prompts_;
  Judge judge_;
  Rollouts rollouts_;
  RolloutState state_;
  std::vector<std::string> routers_;           // whose choices are replayed; none: all choose by themselves
  std::unique_ptr<ReferenceModel> reference_;  // null: no divergence is asked for
  std::unique_ptr<Critic> critic_;             // null: answers are compared with those of their group
  optim::TrainSchedule schedule_;
  std::map<std::string, train::Metric> critic_metrics_;  // of the step

  int64_t step_ = 0;
  bool began_batch_ = false;    // the step has made its batch
  std::vector<Group*> groups_;  // of the step
  std::vector<MicroBatch> micro_batches_;
  // a pass that only records log-probabilities, through this stage; null: it trains
  const language::TextStage* recording_ = nullptr;
};

}  // namespace longhaul::posttrain
