// The arguments that every implementation of linear_cross_entropy gets, checked, in one struct. On the CPU
// it has only the tokens with a label; on other devices it has all tokens, because selecting some would
// make the host wait: tokens with a label below 0 get a loss and gradients of 0.
#pragma once

#include "kernels/linear_cross_entropy/raw.h"

namespace longhaul::kernels {

struct CrossEntropyProblem {
  Tensor hidden_td, weight_vd, labels_t;  // contiguous; every label below vocabulary
  LinearCrossEntropyOptions options;
  KeptPacked kept;           // of weight_vd
  bool all_labelled = true;  // no label is below 0
  double logit_scale = 1;    // of the raw level: 1 / temperature

  int64_t tokens() const { return hidden_td.size(0); }
  int64_t channels() const { return hidden_td.size(1); }
  int64_t vocabulary() const { return weight_vd.size(0); }
  ScalarType sum_type() const { return hidden_td.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }
};

// The destinations of the gradients, which are multiplied by options.upstream. An undefined tensor is not
// wanted.
struct CrossEntropyGradients {
  Tensor hidden_td;  // written; dtype of hidden
  Tensor sink_vd;    // added to
  bool wanted() const { return hidden_td.defined() || sink_vd.defined(); }
};

// Each returns the loss of every token, [tokens] in sum_type().
Tensor cross_entropy_reference(const CrossEntropyProblem& problem, const CrossEntropyGradients& gradients);
Tensor cross_entropy_aten(const CrossEntropyProblem& problem, const CrossEntropyGradients& gradients);
Tensor cross_entropy_fused(const CrossEntropyProblem& problem, const CrossEntropyGradients& gradients);
Refusal refuse_cross_entropy_cuda(const CrossEntropyProblem& problem, const CrossEntropyGradients& gradients);
Refusal refuse_cross_entropy_fused(const CrossEntropyProblem& problem,
                                   const CrossEntropyGradients& gradients);

// The raw level: labels below 0 are allowed everywhere.
struct TokenLogitsGradient {
  Tensor logsumexp_t, entropy_t;  // of all rows of the vocabulary; entropy undefined: it has no gradient
  TokenLogits upstream;
};
void token_logits_reference(const CrossEntropyProblem& problem, const TokenLogits& out);
void token_logits_aten(const CrossEntropyProblem& problem, const TokenLogits& out);
void token_logits_fused(const CrossEntropyProblem& problem, const TokenLogits& out);
void token_logits_backward_reference(const CrossEntropyProblem& problem, const TokenLogitsGradient& of,
                                     const CrossEntropyGradients& into);
void token_logits_backward_aten(const CrossEntropyProblem& problem, const TokenLogitsGradient& of,
                                const CrossEntropyGradients& into);
void token_logits_backward_fused(const CrossEntropyProblem& problem, const TokenLogitsGradient& of,
                                 const CrossEntropyGradients& into);

// Refuse bad arguments.
void check_labels(const Tensor& labels, int64_t vocabulary);
void check_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& labels,
                         const LinearCrossEntropyOptions& options);
void check_cross_entropy_sink(const Tensor& sink, const Tensor& weight);

}  // namespace longhaul::kernels
