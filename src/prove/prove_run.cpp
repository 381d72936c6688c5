#include "prove/prove_run.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/disk/save.h"
#include "checkpoint/load.h"
#include "checkpoint/optimizer_state.h"
#include "optim/outer/outer.h"
#include "parallel/pipeline/arrangement.h"
#include "prove/prove_mistakes.h"
#include "storage/checkpoint_name.h"
#include "train/step.h"

namespace longhaul::prove {
namespace {

// Of what the ranks cut each keeps a share of gradients, and at stage 3 of values.
std::vector<HeldBox> held_of(const model::ParameterSet& parameters, bool gradients) {
  std::vector<HeldBox> result;
  const bool shares = gradients || parameters.place().zero >= 3;
  for (const auto& parameter : parameters.all()) {
    if (gradients && !parameter->trainable()) continue;
    for (size_t i = 0; i < parameter->parts.size(); ++i) {
      const model::Part& part = parameter->parts[i];
      const Tensor found =
          shares ? parameter->own_part_of(gradients ? parameter->own_grad : parameter->own_value, i)
                 : parameter->part_of(parameter->value.detach(), i);
      result.push_back({part.spec.tensor.name, shares ? part.own : part.held, found.to(at::kDouble).clone()});
    }
  }
  return result;
}

// This rank's share of the masters; as the values have them: rounded to the precision of these.
std::vector<HeldBox> masters_of(const model::ParameterSet& parameters, const optim::Optimizer& optimizer,
                                bool as_values) {
  std::vector<HeldBox> result;
  for (size_t p = 0; p < parameters.all().size(); ++p) {
    const model::Parameter& parameter = *parameters.all()[p];
    const Tensor& master = optimizer.masters()[p];
    for (size_t i = 0; i < parameter.parts.size(); ++i) {
      const Tensor own = parameter.own_part_of(master, i),
                   seen = as_values ? own.to(parameter.own_value.scalar_type()) : own;
      result.push_back(
          {parameter.parts[i].spec.tensor.name, parameter.parts[i].own, seen.to(at::kDouble).clone()});
    }
  }
  return result;
}

// What workers do behind each step: all see the same, so a late correction changes nothing, and the mean is
// what each has. Other methods change weights also then.
recipe::OuterOptions outer_of(const recipe::OuterOptions& of_recipe) {
  const bool corrects = of_recipe.method == recipe::Outer::kDelayCorrected;
  return {.method = corrects ? recipe::Outer::kDelayCorrected : recipe::Outer::kLocalSgd, .every = 1};
}

// A training run of a few steps on one rank.
class ProofRun {
 public:
  ProofRun(const ProofSubject& subject, parallel::Ranks& ranks)  // both must outlive it
      : ranks_(ranks),
        mistake_(subject.layout.mistake),
        task_(subject.config, Precision::named(subject.dtype), ranks, subject.layout, subject.rows),
        optimizer_(optim::make_optimizer(options_of(subject.optim), task_.parameters(), task_.precision(),
                                         kProofSeed)),
        state_(*optimizer_),
        router_(subject.config.router) {
    if (ranks.workers() > 1)
      outer_.emplace(outer_of(subject.optim.outer), *optimizer_, task_.parameters(), ranks);
  }

  void step(int64_t step) {
    const auto look = [&] {
      if (mistake_ != nullptr && mistake_->gradients)
        mistake_->gradients(ranks_.place(), step, task_.parameters());
      if (step == 1) seen.gradients = held_of(task_.parameters(), true);
    };
    if (seen.start.empty()) seen.start = masters_of(task_.parameters(), *optimizer_, false);
    const Before before = undone() == Undone::kNothing ? Before{} : now();
    // What is not finite is seen as a difference.
    const train::StepResult result = train::run_step(
        task_, *optimizer_, ranks_, step,
        {.lr = 1e-2, .clip_norm = 1.0, .seed = kProofSeed, .router = router_, .with_gradients = look});
    if (outer_) outer_->after_step({.lr = 1e-2, .loss = result.loss, .left = kProofSteps - step});
    seen.losses.push_back(result.loss);
    seen.norms.push_back(result.gradient_norm);
    parallel::Sharding* const sharding = ranks_.sharding_of(task_.parameters());
    if (sharding != nullptr && ranks_.place().zero < 3) sharding->gather_values();
    take_back(before);
    if (step == 1) seen.masters = masters_of(task_.parameters(), *optimizer_, false);
    seen.rounded = masters_of(task_.parameters(), *optimizer_, true);
    seen.parameters = held_of(task_.parameters(), false);
  }
  void save(const std::filesystem::path& folder) {
    std::optional<Error> failure;
    checkpoint::Saver saver(
        files_,
        {.folder = folder,
         .on_result = [&](const checkpoint::SaveResult& result) { failure = result.failure; }},
        ranks_.everyone("checkpoint"));
    saver.save(kProofSavedStep, providers_, {.run_id = "prove"});
    saver.wait();
    if (failure) throw Error(*failure);
  }
  void resume(const std::filesystem::path& folder) {
    const std::string name = storage::CheckpointName{.step = kProofSavedStep, .generation = 1}.text();
    checkpoint::load_training_state(storage::Checkpoint::open(files_, folder / name), providers_,
                                    ranks_.world());
    ranks_.share_values(task_.parameters());
  }
  Seen seen;

 private:
  using Undone = ProofMistake::Undone;
  struct Before {
    std::vector<Tensor> values, masters;
  };
  Undone undone() const { return mistake_ != nullptr ? mistake_->undone : Undone::kNothing; }
  Before now() {
    Before now;
    for (const auto& parameter : task_.parameters().all())
      now.values.push_back(parameter->value.detach().clone());
    for (const Tensor& master : optimizer_->masters()) now.masters.push_back(master.clone());
    return now;
  }
  void take_back(const Before& before) {
    const at::NoGradGuard no_gradient;
    for (size_t p = 0; p < before.values.size(); ++p) {
      const bool own_master = optimizer_->masters()[p].is_alias_of(task_.parameters().all()[p]->own_value);
      if (undone() == Undone::kValues && own_master) continue;  // it has no other value
      if (undone() == Undone::kAll) optimizer_->masters()[p].copy_(before.masters[p]);
      task_.parameters().all()[p]->value.detach().copy_(before.values[p]);
      task_.parameters().all()[p]->written();
    }
  }
  static recipe::OptimOptions options_of(recipe::OptimOptions options) {
    options.eps = options.sign_fade = 1e-2;
    options.square_eps = options.residual_eps = 1e-4;
    options.state_block = 2, options.state_least = 1;  // small tensors, whose columns ranks cut anywhere
    return options;
  }

  parallel::Ranks& ranks_;
  const ProofMistake* mistake_;
  ProofTask task_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  checkpoint::OptimizerState state_;
  recipe::RouterOptions router_;
  std::optional<optim::OuterLoop> outer_;
  checkpoint::StateProvider* providers_[1] = {&state_};
  storage::LocalFileSystem files_;
};

}  // namespace

ProofSubject subject_of(const recipe::ModelConfig& model, const recipe::OptimOptions& optim,
                        const ProofLayout& layout, const std::string& dtype) {
  const recipe::ModelConfig small = made_small(model, layout.parallel);
  const ProofLayout own = of_small(model, layout);
  return {small, optim, dtype, own, proof_rows(arrangement_of(small, own).mesh.size(layout::Axis::kDp))};
}

Seen prove_alone(const ProofSubject& subject, const std::optional<std::filesystem::path>& save_to) {
  parallel::Ranks alone(subject.layout.elastic);
  ProofRun run(subject, alone);
  for (int64_t step = 1; step <= proof_steps(subject.dtype); ++step) {
    run.step(step);
    if (step == kProofSavedStep && save_to) run.save(*save_to);
  }
  return run.seen;
}

SeenTwice prove_rank(const ProofSubject& subject, comm::Communicator& world,
                     const std::optional<ProofCheckpoints>& checkpoints) {
  const parallel::Arrangement arrangement = arrangement_of(subject.config, subject.layout);
  const ProofMistake* const mistake = subject.layout.mistake;
  const std::unique_ptr<comm::Communicator> planted =
      mistake != nullptr && mistake->left_out ? forgetful(world, *mistake) : nullptr;
  parallel::Ranks ranks(planted ? *planted : world, arrangement);
  ProofRun run(subject, ranks);
  for (int64_t step = 1; step <= proof_steps(subject.dtype); ++step) {
    run.step(step);
    if (step == kProofSavedStep && checkpoints) run.save(checkpoints->own);
  }
  if (!checkpoints) return {run.seen, {}};
  ProofRun second(subject, ranks);
  second.resume(checkpoints->earlier);
  second.step(kProofSavedStep + 1);
  return {run.seen, second.seen};
}

}  // namespace longhaul::prove
