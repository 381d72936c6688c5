// RandomTokens: a task for benchmarks of whole steps: this replica's micro-batches of random tokens, which are the step's whatever the replicas; the
// same ones in every step.
#pragma once

#include <string>
#include <vector>

#include "language/text_stage.h"
#include "model/decoder.h"
#include "parallel/ranks.h"
#include "train/task.h"

namespace longhaul::bench {

struct RandomTokensRequest {
  int64_t batch = 8, micro_batch = 1, sequence = 256;  // of a step: batch sequences, over all replicas
  std::string dtype = "bf16";
};

class RandomTokens final : public train::Task {
 public:
  RandomTokens(const RandomTokensRequest& request, const recipe::ModelConfig& config, const parallel::Ranks& ranks);
  model::ParameterSet& parameters() override { return decoder_.parameters(); }
  const Precision& precision() const override { return decoder_.precision(); }
  train::StepWork prepare(int64_t step) override;
  bool prepare_of(int64_t step, int64_t replica) override;
  Tensor forward(model::Context& context, int64_t micro_batch, const Tensor& entering) override;

 private:
  std::vector<int64_t> micro_batch(int64_t number) const;  // of the step's

  layout::SequenceLayout layout_;
  int64_t own_, vocabulary_;  // micro-batches of a replica
  model::Decoder decoder_;
  language::TextStage stage_;
  std::vector<std::vector<int64_t>> ids_, labels_;
  std::vector<int64_t> other_ids_, other_labels_;  // of prepare_of; empty: the own ones
};

}  // namespace longhaul::bench
