// Teacher: the frozen model of train.distill, from which the trained one learns each token's distribution. It
// is opened from its checkpoint whenever a run begins or goes on, whole on every rank, and reads the tokens
// that the rank reads; it has no state of its own, so a run that goes on has the same bits as long as the
// checkpoint is the same.
#pragma once

#include "checkpoint/open_model.h"
#include "model/decoder.h"
#include "plan/memory/memory.h"
#include "recipe/recipe.h"

namespace longhaul::language {

class Teacher {
 public:
  // tokenizer_sha256: of the run's data. Refuses (kUsage, kData) a model that predicts something else, has
  // another vocabulary or was trained with another tokenizer.
  Teacher(const recipe::Recipe& recipe, const std::string& tokenizer_sha256, at::Device device);

  // Σ over the labelled tokens of the loss of kernels/distillation/op.h, of the model that learns and reads
  // these ids. weights_t: of the labels; undefined: 1.
  Tensor loss(model::Context& context, model::Decoder& learner, const Tensor& ids_t, const Tensor& labels_t,
              const Tensor& weights_t, const layout::SequenceView& view);

 private:
  recipe::DistillOptions options_;
  checkpoint::OpenModel model_;
};

// What a teacher adds to the plan of a run's memory.
void add_teacher(const recipe::Recipe& recipe, const plan::MemoryRequest& request, plan::MemoryPlan& plan);

}  // namespace longhaul::language
