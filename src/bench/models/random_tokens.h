// RandomTokens: a task for benchmarks of whole steps. It gives this replica's micro-batches of random
// tokens. A step's tokens do not depend on the number of replicas, and are the same in every step.
#pragma once

#include <string>
#include <vector>

#include "language/text_stage.h"
#include "model/decoder.h"
#include "parallel/ranks.h"
#include "train/task.h"

namespace longhaul::bench {

struct RandomTokensRequest {
  int64_t batch = 8, micro_batch = 1, sequence = 256;  // batch: sequences in a step, over all replicas
  std::string dtype = "bf16";
};

class RandomTokens final : public train::Task {
 public:
  RandomTokens(const RandomTokensRequest& request, const recipe::ModelConfig& config,
               const parallel::Ranks& ranks);
  model::ParameterSet& parameters() override { return decoder_.parameters(); }
  const Precision& precision() const override { return decoder_.precision(); }
  train::StepWork prepare(int64_t step) override;
  bool prepare_of(int64_t step, int64_t replica) override;
  Tensor forward(model::Context& context, int64_t micro_batch, const Tensor& entering) override;

 private:
  std::vector<int64_t> micro_batch(int64_t number) const;  // the tokens of the step's micro-batch `number`

  layout::SequenceLayout layout_;
  int64_t own_, vocabulary_;  // own_: micro-batches of a replica
  model::Decoder decoder_;
  language::TextStage stage_;
  std::vector<std::vector<int64_t>> ids_, labels_;
  std::vector<int64_t> other_ids_, other_labels_;  // set by prepare_of; empty: the own ones are used
};

}  // namespace longhaul::bench
