// ProofTask: what `prove` trains: a recipe's model, made small, on packed documents of awkward lengths that every layout of ranks gets alike. A
// mistake (prove_mistakes.h) may be planted in what a rank is given. A causal model predicts next tokens, another one masked tokens (data/order/masked.h).
#pragma once

#include <vector>

#include "kernels/file_offload.h"
#include "language/text_stage.h"
#include "model/decoder.h"
#include "parallel/ranks.h"
#include "prove/prove_layouts.h"
#include "train/task.h"

namespace longhaul::prove {

inline constexpr uint64_t kProofSeed = 20260101;

// The recipe's model with its mixers, wiring, experts, ties and biases, and few of everything that has a size, but so many that the ranks can
// share each, and layers for every stage.
recipe::ModelConfig made_small(recipe::ModelConfig model, const recipe::ParallelOptions& parallel);
// The layout on the small model: where stages have layers of their own number (parallel.stage_layers), few of each, and uneven as they were.
ProofLayout of_small(const recipe::ModelConfig& model, ProofLayout layout);

// kUsage where the layout cannot share the recipe's own layers, heads and experts, of which the small model may have others, or the small model.
void require_dealt_out(const recipe::ModelConfig& model, const ProofLayout& layout);

// Of a step, of so many replicas: eight, or so many more that each has the same number, two or more.
int64_t proof_rows(int64_t replicas);

// Rows of a micro-batch, of `own` that a replica has on so many stages.
int64_t proof_rows_at_once(const recipe::ModelConfig& model, int64_t stages, int64_t own);

// What a micro-batch is made of: some rows.
struct ProofBatch {
  layout::SequenceLayout layout;
  std::vector<int64_t> ids, labels;
};

// A replica's share of the rows; a stage's share of the layers.
class ProofTask final : public train::Task {
 public:
  // What stands in `layout` beside its ranks: documents, recomputation, a mistake. All that is given must outlive it.
  ProofTask(const recipe::ModelConfig& config, Precision precision, const parallel::Ranks& ranks, const ProofLayout& layout,
            int64_t rows = 8);
  model::ParameterSet& parameters() override { return decoder_.parameters(); }
  const Precision& precision() const override { return decoder_.precision(); }

  train::StepWork prepare(int64_t step) override;
  Tensor forward(model::Context& context, int64_t micro_batch, const Tensor& entering) override;
  train::StageInput stage_input(int64_t micro_batch) const override { return stage_.input(text_of(micro_batch)); }

 private:
  language::PackedText text_of(int64_t micro_batch) const;

  const parallel::Ranks& ranks_;
  const ProofLayout& layout_;
  int64_t rows_;                                   // of a step, of all replicas
  const ProofMistake* mistake_;                    // null: none
  bool masked_;                                    // whatever model a mistake makes of it
  std::unique_ptr<kernels::FileOffload> offload_;  // null: none
  model::Decoder decoder_;
  language::TextStage stage_;
  train::StepWork work_;
  std::vector<ProofBatch> micro_batches_;
};

}  // namespace longhaul::prove
