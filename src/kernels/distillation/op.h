// distillation_sum: the loss of a model that learns beside a frozen one (Hinton et al., arXiv 1503.02531).
// For tokens with a label ≥ 0, with the model's logits z = W h and the frozen model's u,
//
//   ℓ_t = (1 − w) (logsumexp(z_t) − z_t[label_t]) + w T² Σ_v p_v (log p_v − log q_v)
//   p = softmax(u_t / T)    q = softmax(z_t / T)
//   dz_t = (1 − w) (softmax(z_t) − one_hot(label_t)) + w T (q − p)
//
// Logits of both exist of `chunk` tokens only; the backward pass makes them again, and any gradient of the
// sum is right. By LibTorch's operations on the logits, whose products choose their implementation as
// `linear` does; every dtype, any device.
//
// layer_distance_sum: how far the states of one layer are from those of the frozen model's, which has as many
// channels D (the hidden-state loss of TinyBERT, arXiv 1909.10351 §3, without a matrix between the widths).
// For tokens with a label, in fp32 (fp64 for fp64 inputs):
//
//   m_t = 1/D Σ_d (x_td − y_td)²        dx_td = 2/D (x_td − y_td)
#pragma once

#include <functional>

#include "kernels/linear_cross_entropy/log_probabilities.h"

namespace longhaul::kernels {

struct Distillation {
  double weight = 0.5, temperature = 1;
  // The frozen model's logits of some tokens, [rows, vocabulary] fp32 (fp64): called in both passes.
  std::function<Tensor(int64_t first, int64_t rows)> logits;
  int64_t chunk = 256;  // tokens
};

// Scalars, fp32 (fp64 for fp64 inputs): Σ of ℓ_t over the tokens, and of its two parts, without 1 − w, w and
// T², which have no gradient.
struct Distilled {
  Tensor loss, cross_entropy, divergence;
};

// hidden_td [tokens, hidden], labels_t int64 [tokens] (−1: no loss), weight_t: what each token counts;
// undefined: 1. The loss is differentiable in hidden; the head's gradient goes to its sink.
Distilled distillation_sum(const Tensor& hidden_td, const Head& head, const Tensor& labels_t,
                           const Tensor& weight_t, const Distillation& from);

// Σ_t count_t m_t, a scalar, differentiable in own_td. own_td and frozen_td [tokens, channels] of one dtype;
// count_t: as counts_of() has it.
Tensor layer_distance_sum(const Tensor& own_td, const Tensor& frozen_td, const Tensor& count_t);

// What each token counts in such a sum, in the wide type: its weight (undefined: 1), 0 without a label.
Tensor counts_of(const Tensor& labels_t, const Tensor& weight_t, ScalarType wide);

}  // namespace longhaul::kernels
