// Mistakes that `prove` must find: `prove --break NAME` plants one in what the ranks are given, or in what they tell each other, and in nothing
// else. Each has been somebody's bug: silent, because the loss still falls. No code of training knows of them: they come in by the task's
// batches and weights, by gradients between the backward pass and the update, and by a communicator that leaves calls out.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "prove/prove_layouts.h"
#include "prove/prove_task.h"

namespace longhaul::prove {

struct ProofMistake {
  std::string name;                                                  // "norm-gradient-unsummed"
  std::string what;                                                  // a sentence
  recipe::ParallelOptions layout{};                                  // where it shows
  std::function<std::string(const recipe::ModelConfig&)> missing{};  // what a model must have for it and has not; unset or "": nothing

  bool in_bf16 = false;  // planted in bf16 alone, where the bounds are wide; else in fp64 alone
  enum class Undone { kNothing, kValues, kAll };
  Undone undone = Undone::kNothing;  // of each update, on all ranks alike: values in the working precision, or masters too

  // Asked on each rank's own thread; what is unset is as it should be.
  std::function<bool(const comm::Call&)> left_out{};  // by all members: a sum stays this rank's own, what others would send is zero
  std::function<void(const layout::MeshRank&, recipe::ModelConfig&)> model{};
  std::function<bool(const layout::MeshRank&)> other_start{};  // its weights begin elsewhere
  std::function<void(const layout::MeshRank&, ProofBatch&)> batch{};
  std::function<void(train::StepWork&)> work{};  // what the replica says of its step
  std::function<double(const train::StepWork& as_it_should_be, int64_t micro_batch)> loss_factor{};
  std::function<void(const layout::MeshRank&, int64_t step, const model::ParameterSet&)> gradients{};
};

const std::vector<ProofMistake>& proof_mistakes();
ProofLayout planted(const ProofMistake& mistake);            // where it shows
const ProofMistake& proof_mistake(const std::string& name);  // kUsage, with the names, where there is none

// `world` and its groups but for the calls that the mistake leaves out. Both must outlive it.
std::unique_ptr<comm::Communicator> forgetful(comm::Communicator& world, const ProofMistake& mistake);

}  // namespace longhaul::prove
