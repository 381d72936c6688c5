// Teacher: the frozen model of train.distill, from which the trained one learns each token's distribution. It
// is opened from its checkpoint whenever a run begins or goes on, whole on every rank, and reads the tokens
// that the rank reads; it has no state of its own, so a run that goes on has the same bits as long as the
// checkpoint is the same.
//
// With train.distill.hidden = λ the states of the layers are compared too: with h_l the residual stream that
// leaves layer l of L in the trained model (as the next layer gets it; post-norm: normed) and g_l that of the
// frozen one, both D wide, and c_t what a labelled token counts,
//
//   loss = Σ_t c_t ℓ_t + λ Σ_t c_t 1/L Σ_l 1/D ‖h_lt − g_lt‖²       (kernels/distillation/op.h)
//
// This is the hidden-state loss of TinyBERT (arXiv 1909.10351 §3) over all layers at once. MOHAWK (arXiv
// 2408.10189) and LoLCATs (arXiv 2410.10254) compare the outputs of single mixers instead, each fed with what
// the frozen model's layer reads. The second sum joins the graph at the layers as an auxiliary loss, and is
// reported as one.
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

  // Sums over the labelled tokens. The loss is the one without the layers' distances, which joins them to its
  // backward pass; the parts are without weights and gradient. `distance`: mean over layers and channels;
  // undefined: not compared.
  struct Sums {
    Tensor loss, cross_entropy, divergence, distance;
  };
  // The loss of the model that learns and reads these ids. weights_t: the labels' weights; undefined: 1.
  Sums loss(model::Context& context, model::Decoder& learner, const Tensor& ids_t, const Tensor& labels_t,
            const Tensor& weights_t, const layout::SequenceView& view);

 private:
  using States = std::vector<Tensor>;  // by layer
  void require_same_layers(const recipe::ModelConfig& learner) const;
  Tensor read(const Tensor& ids_t, const layout::SequenceView& view, States* states);

  recipe::DistillOptions options_;
  checkpoint::OpenModel model_;
};

// What a teacher adds to the plan of a run's memory.
void add_teacher(const recipe::Recipe& recipe, const plan::MemoryRequest& request, plan::MemoryPlan& plan);

// FLOPs of one token beside those of the model that learns: the forward pass of the frozen model, and both
// models' logits, which the backward pass makes again. 0 without train.distill.
double teacher_flops_per_token(const recipe::Recipe& recipe);

}  // namespace longhaul::language
