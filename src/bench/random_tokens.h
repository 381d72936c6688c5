// RandomTokens: a task for benchmarks of whole steps: this replica's micro-batches of random tokens, which are the step's whatever the replicas; the
// same ones in every step.
#pragma once

#include <string>
#include <vector>

#include "model/decoder.h"
#include "parallel/ranks.h"
#include "train/task.h"
#include "train/text_stage.h"

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
  Tensor forward(model::Context& context, int64_t micro_batch, const Tensor& entering) override;

 private:
  layout::SequenceLayout layout_;
  model::Decoder decoder_;
  train::TextStage stage_;
  std::vector<std::vector<int64_t>> ids_, labels_;
};

}  // namespace longhaul::bench
