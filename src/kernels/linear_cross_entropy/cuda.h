// linear_cross_entropy on a GPU: head and loss in chunks of tokens, so that the logits of one chunk only
// exist at once.
//
//   z_t = W h_t,  ℓ_t = logsumexp(z_t) − z_t[label] + z_loss · logsumexp(z_t)²      (0 where label < 0)
//
// hidden [T, hidden] and weight [V, hidden] bf16, logits fp32. Gradients of scale · Σ ℓ_t: d_hidden bf16,
// d_weight fp32, added to. loss_of_rows below is the fused part alone, for callers whose products are
// cuBLAS's.
#pragma once

#include "kernels/cuda/numbers.h"

namespace longhaul::kernels::cuda {

struct LinearCrossEntropy {
  int64_t tokens = 0, hidden = 0, vocabulary = 0;
  int64_t chunk = 1024;
  float z_loss = 0, scale = 1;
  const Bf16 *h = nullptr, *weight = nullptr;
  const int64_t* labels = nullptr;  // below 0: no loss
  float* loss = nullptr;            // [T]
  Bf16* d_h = nullptr;              // null: not wanted
  float* d_weight = nullptr;        // likewise
  LONGHAUL_HD bool wants_gradients() const { return d_h != nullptr || d_weight != nullptr; }
};
int64_t linear_cross_entropy_workspace_bytes(const LinearCrossEntropy& problem);
void linear_cross_entropy(const LinearCrossEntropy& problem, void* workspace, Stream stream);

// The raw level (raw.h): of every token the log-sum-exp, the label's logit (0 without label) and, where not
// null, the entropy; logits are multiplied by logit_scale. Backward: logsumexp and entropy are read, and the
// gradients of the three give d_h, written, and d_weight, added to.
struct TokenHead {
  int64_t tokens = 0, hidden = 0, vocabulary = 0;
  int64_t chunk = 1024;
  float logit_scale = 1;
  const Bf16 *h = nullptr, *weight = nullptr;
  const int64_t* labels = nullptr;
};
struct TokenHeadTerms {
  float *logsumexp = nullptr, *label = nullptr, *entropy = nullptr;
};
struct TokenHeadGradients {
  const float *logsumexp = nullptr, *entropy = nullptr;  // entropy null: it has no gradient
  const float *d_logsumexp = nullptr, *d_label = nullptr, *d_entropy = nullptr;
  Bf16* d_h = nullptr;        // null: not wanted
  float* d_weight = nullptr;  // likewise
};
int64_t token_head_workspace_bytes(const TokenHead& problem, bool backward);
void token_head(const TokenHead& problem, const TokenHeadTerms& terms, void* workspace, Stream stream);
void token_head_backward(const TokenHead& problem, const TokenHeadGradients& gradients, void* workspace,
                         Stream stream);

// Rows of logits [rows, stride] fp32, of which the first `vocabulary` count: losses, and, where d_logits is
// given, its bf16 rows [rows, stride] = scale · (p (1 + 2 z_loss lse) − one_hot(label)), 0 in the padding and
// where there is no label.
void loss_of_rows(const float* logits, const int64_t* labels, float* loss, Bf16* d_logits, int64_t rows,
                  int64_t vocabulary, int64_t stride, float z_loss, float scale, Stream stream);

}  // namespace longhaul::kernels::cuda
