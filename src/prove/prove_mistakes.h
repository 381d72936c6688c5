// Mistakes that `prove` must find: `prove --break NAME` plants one in the inputs of the ranks or in their
// communication, and nowhere else. Each has been a real bug of some program that stayed unnoticed because the
// loss still fell. The training code does not know about them: they enter through the task's batches and
// weights, through gradients between the backward pass and the update, and through a communicator that leaves
// calls out.
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
  std::string name;                  // "norm-gradient-unsummed"
  std::string what;                  // a sentence
  recipe::ParallelOptions layout{};  // where it shows
  // what the model lacks that the mistake needs; unset or "": nothing
  std::function<std::string(const recipe::ModelConfig&)> missing{};

  bool in_bf16 = false;  // true: planted in bf16 only, where the bounds are wide; false: in fp64 only
  enum class Undone { kNothing, kValues, kAll };
  // changes each update, on all ranks alike: values in the working precision, or masters too
  Undone undone = Undone::kNothing;

  // Each function is called on the rank's own thread; an unset one means correct behaviour.
  std::function<bool(const comm::Call&)>
      // left out by all members: a sum keeps this rank's own value, and messages of others are zero
      left_out{};
  std::function<void(const layout::MeshRank&, recipe::ModelConfig&)> model{};
  std::function<bool(const layout::MeshRank&)> other_start{};  // its weights start with other values
  std::function<void(const layout::MeshRank&, ProofBatch&)> batch{};
  std::function<void(train::StepWork&)> work{};  // the weight that the replica reports for its step
  std::function<double(const train::StepWork& as_it_should_be, int64_t micro_batch)> loss_factor{};
  std::function<void(const layout::MeshRank&, int64_t step, const model::ParameterSet&)> gradients{};
};

const std::vector<ProofMistake>& proof_mistakes();
ProofLayout planted(const ProofMistake& mistake);            // where it shows
const ProofMistake& proof_mistake(const std::string& name);  // kUsage, with the names, where there is none

// `world` and its groups without the calls that the mistake leaves out. Both arguments must outlive it.
std::unique_ptr<comm::Communicator> forgetful(comm::Communicator& world, const ProofMistake& mistake);

}  // namespace longhaul::prove
