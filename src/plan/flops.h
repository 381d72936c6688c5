// Model FLOPs of one token; they are counted only here (a multiply-add is 2). Source:
// docs/sources/megascale.md §8, PaLM appendix B.
//
//   F = 6·N_mm + Σ over attentions 12·heads·head_dim·s + Σ over recurrences 12·heads·key·value
//
// N_mm: parameters in matrix products that a token uses (k of the experts; the head, but not the embedding
// table). s: the sequence length in the full convention (PaLM, FlashAttention-2), or half of it in the causal
// one (Megatron) if the model is causal. A linear recurrence counts its algorithmic minimum, which is also
// that of one sum over a whole document (kernels/bidirectional). Recomputation is never counted; the
// utilisation that includes it (HFU) adds flops_again_per_token().
// A frozen tensor (layout/freezing.h) counts what is computed: of the 6 of its product, the 2 for its own
// gradient are missing, and those for the gradient of its input where nothing before it trains; attentions
// and recurrences of such layers have a forward pass only.
#pragma once

#include "recipe/architecture/model_config.h"
#include "recipe/sections/train_options.h"

namespace longhaul::plan {

struct TokenFlops {
  double matrices = 0;  // 6·N_mm
  double recurrence = 0;
  double attention_full = 0, attention_causal = 0;
  double full() const { return matrices + recurrence + attention_full; }
  double causal() const { return matrices + recurrence + attention_causal; }
};

// The FLOPs that full recomputation repeats (docs/design/recomputation.md): the layers' products and
// recurrences, whose forward pass is a third of the FLOPs above. The result of softmax attention is kept, and
// nothing outside the layers is repeated. Other kinds of recomputation only repeat elementwise passes, which
// are not counted.
// again: of each layer, whether it is recomputed (layout::first_of_stages); empty: all are.
double flops_again_per_token(const recipe::ModelConfig& config, recipe::Recompute recompute,
                             const std::vector<bool>& again = {});

// Forward and backward pass, per token, for sequences of `sequence` tokens.
TokenFlops training_flops_per_token(const recipe::ModelConfig& config, int64_t sequence);

}  // namespace longhaul::plan
