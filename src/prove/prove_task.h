// ProofTask: what `prove` trains: a recipe's model, made small, on packed documents of awkward lengths that
// are the same under every layout of ranks. A mistake (prove_mistakes.h) may be planted in the inputs of a
// rank. A causal model predicts next tokens, any other predicts masked tokens (data/order/masked.h).
#pragma once

#include <vector>

#include "kernels/saved/saved_tensors.h"
#include "language/text_stage.h"
#include "model/decoder.h"
#include "parallel/ranks.h"
#include "prove/prove_layouts.h"
#include "train/task.h"

namespace longhaul::prove {

inline constexpr uint64_t kProofSeed = 20260101;
inline constexpr const char* kProofProjector = "projector.weight";  // makes the rows from outside

// The recipe's model with its mixers, wiring, experts, ties and biases, and with every size small, but large
// enough that the ranks can share each, and with layers for every stage.
recipe::ModelConfig made_small(recipe::ModelConfig model, const recipe::ParallelOptions& parallel);
// The layout for the small model: where stages have their own numbers of layers (parallel.stage_layers), the
// numbers become small and stay uneven.
ProofLayout of_small(const recipe::ModelConfig& model, ProofLayout layout);

// Throws kUsage where the layout cannot share the layers, heads and experts of the recipe's own model, whose
// numbers may differ from the small model's, or those of the small model.
void require_dealt_out(const recipe::ModelConfig& model, const ProofLayout& layout);

// The rows of a step for that many replicas: eight, or as many more as give each replica the same number of
// at least two.
int64_t proof_rows(int64_t replicas);

// The rows of a micro-batch, where a replica has `own` rows and that many stages.
int64_t proof_rows_at_once(const recipe::ModelConfig& model, int64_t stages, int64_t own);

// A micro-batch: some of the rows.
struct ProofBatch {
  layout::SequenceLayout layout;
  std::vector<int64_t> ids, labels;
  std::vector<float> weights;  // of the labels; empty: 1
  // The tokens that have rows from outside, and the features that their rows are made of, [n, features].
  std::vector<int64_t> embedded;
  Tensor features;
};

// A replica's share of the rows; a stage's share of the layers.
class ProofTask final : public train::Task {
 public:
  // The parts of `layout` beside its ranks: documents, recomputation, a mistake. All arguments must outlive
  // it.
  ProofTask(const recipe::ModelConfig& config, Precision precision, const parallel::Ranks& ranks,
            const ProofLayout& layout, int64_t rows = 8);
  model::ParameterSet& parameters() override { return decoder_.parameters(); }
  const Precision& precision() const override { return decoder_.precision(); }

  train::StepWork prepare(int64_t step) override;
  Tensor forward(model::Context& context, int64_t micro_batch, const Tensor& entering) override;
  train::StageInput stage_input(int64_t micro_batch) const override {
    return stage_.input(text_of(micro_batch));
  }

 private:
  language::PackedText text_of(int64_t micro_batch, const model::EmbeddedRows* embedded = nullptr) const;

  const parallel::Ranks& ranks_;
  const ProofLayout& layout_;
  int64_t rows_;                                    // of a step, of all replicas
  const ProofMistake* mistake_;                     // null: none
  bool masked_;                                     // the model, possibly changed by a mistake
  std::unique_ptr<kernels::SavedTensors> offload_;  // null: none
  model::Decoder decoder_;
  language::TextStage stage_;
  train::StepWork work_;
  std::vector<ProofBatch> micro_batches_;
};

}  // namespace longhaul::prove
