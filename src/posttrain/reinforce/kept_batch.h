// KeptBatch: a rollout batch as the tensors and facts of a checkpoint, for a batch that outlives the step
// that makes it. The tensors are allocated once, for the largest batch that there can be.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/state.h"
#include "posttrain/reinforce/rollouts.h"

namespace longhaul::posttrain {

class KeptBatch {
 public:
  // What is kept of each token beside its id and the engine's log-probability.
  struct Sizes {
    int64_t answers = 0, tokens = 0;        // of the batch; of an answer, at most
    bool scores = false, values = false;    // by the trainer and the reference; by a critic
    std::vector<std::string> routers = {};  // blocks whose routes are kept
    int64_t read = 0, experts = 0;          // tokens of prompt and answer, at most; experts of a token
    double bytes() const;
  };
  // prefix: of the tensors' names, "task.rollout."
  KeptBatch(std::string prefix, Sizes sizes);

  void keep(const RolloutBatch& batch);
  // Tensors and facts of the batch that was kept, and the batch that they are of; the tensors must have been
  // read.
  std::vector<checkpoint::StateEntry> tensors(bool written_here) const;
  static nlohmann::json facts(const RolloutBatch& batch);
  RolloutBatch batch(const nlohmann::json& facts, const Prompts& prompts) const;

 private:
  std::string prefix_;
  Sizes sizes_;
  Tensor ids_, generated_, old_, reference_, values_;  // [answers, tokens]; undefined: not kept
  std::vector<Tensor> routes_;                         // of each router, [answers, read, experts]
};

}  // namespace longhaul::posttrain
