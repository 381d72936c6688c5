// The rows of logits between the products of a head (cuda_call.cpp): losses, terms of the raw level, and the
// gradients of logits. The products are cuBLAS's.
//
//   ℓ_t = logsumexp(z_t) − z_t[label] + z_loss · logsumexp(z_t)²      (0 where label < 0)
//
// Logits are fp32, [rows, stride], of which the first `vocabulary` columns count; gradients of logits are
// bf16 of the same shape, zeros in the other columns. stride is a multiple of 8, and rows begin at 16-byte
// addresses. A NaN anywhere in a row makes its loss, or its terms, NaN.
#pragma once

#include "kernels/cuda/numbers.h"

namespace longhaul::kernels::cuda {

struct LogitRows {
  int64_t rows = 0, vocabulary = 0, stride = 0;
  const float* logits = nullptr;
  const int64_t* labels = nullptr;  // below 0: no loss
};

// Losses, and where d_logits is not null scale · (p (1 + 2 z_loss lse) − one_hot(label)), 0 without label.
void loss_of_rows(const LogitRows& in, float z_loss, float scale, float* loss, Bf16* d_logits, Stream stream);

// The raw level (raw.h) of z = logit_scale · logits: of every row the log-sum-exp, the label's logit (0
// without label) and, where not null, the entropy.
struct TokenTerms {
  float *logsumexp = nullptr, *label = nullptr, *entropy = nullptr;
};
void terms_of_rows(const LogitRows& in, float logit_scale, const TokenTerms& out, Stream stream);

struct TokenTermGradients {
  const float *logsumexp = nullptr, *entropy = nullptr;  // the terms; entropy null: it has no gradient
  const float *d_logsumexp = nullptr, *d_label = nullptr, *d_entropy = nullptr;
};
void term_gradients_of_rows(const LogitRows& in, float logit_scale, const TokenTermGradients& of,
                            Bf16* d_logits, Stream stream);

}  // namespace longhaul::kernels::cuda
