// Model FLOPs of one token: the only place where they are counted (a multiply-add is 2). Source: docs/sources/megascale.md §8, PaLM appendix B.
//
//   F = 6·N_mm + Σ over attentions 12·heads·head_dim·s + Σ over recurrences 12·heads·key·value
//
// N_mm: parameters in matrix products that a token passes through (k of the experts; the head, not the embedding table). s: the
// sequence in the full convention (PaLM, FlashAttention-2), half of it in the causal one (Megatron), where the model is causal. A linear recurrence counts
// its algorithmic minimum, which is also that of one sum over a whole document (kernels/bidirectional). Recomputation never counts: utilisation with it
// (HFU) takes flops_again_per_token() besides.
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

// What full recomputation computes a second time (docs/design/recomputation.md): the layers' products and recurrences, whose forward pass is a third of what counts
// above; not the result of softmax attention, which is kept, and nothing outside the layers. Other kinds make passes over elements again, which do not count.
double flops_again_per_token(const recipe::ModelConfig& config, recipe::Recompute recompute);

// Forward and backward, per token, of sequences of `sequence` tokens.
TokenFlops training_flops_per_token(const recipe::ModelConfig& config, int64_t sequence);

}  // namespace longhaul::plan
