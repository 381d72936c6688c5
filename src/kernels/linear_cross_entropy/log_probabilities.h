// The log-probability of every token's label and, where asked for, the entropy of its distribution: what
// losses of single tokens are made of (weighted fine-tuning, preferences, policy gradients), which are then
// written outside with LibTorch's operations on [tokens]. They take any gradient for each token. Logits exist
// of `chunk` tokens only; the backward pass makes them again.
//
//   log p(label) = z[label] − logsumexp(z),   H = − Σ_v p_v log p_v,   z = W h / temperature
//
// A token without a label (below 0) has 0 everywhere and no gradient. On the CPU it also costs nothing: the
// labelled rows are picked first. On other devices that would make the host wait, so all rows are computed.
#pragma once

#include "kernels/linear_cross_entropy/raw.h"

namespace longhaul::kernels {

struct LogProbabilityOptions {
  double temperature = 1;  // the logits are divided by it: that of sampling, for policy gradients
  bool entropy = false;
  bool logsumexp = false;  // for a z-loss: coefficient · logsumexp²
  int64_t chunk = 0;       // as in TokenLogitsInputs
  // The values of log_probability_t, then in fp64, are those that an engine tells of the tokens that it draws
  // (kernels/sampling/log_softmax.h), bit for bit. On the CPU, with all rows of the head.
  bool as_drawn = false;
};

// [tokens] fp32 (fp64 for fp64 inputs); undefined what was not asked for. Differentiable in hidden; the
// weight's gradient goes to the sink.
struct TokenLogProbabilities {
  Tensor log_probability_t, entropy_t, logsumexp_t;
};

// A head of `vocabulary` rows of which this rank has those from `first_row` on. `joined` makes the terms of
// all ranks' rows from those of this rank's, the same on all ranks; null: this rank has all rows.
struct VocabularyRows {
  int64_t first_row = 0, vocabulary = 0;
  std::function<TokenLogits(const TokenLogits&)> joined{};
};

struct Head {
  Tensor weight_vd;
  GradientSink sink;
  KeptPacked kept = {};
};

TokenLogProbabilities token_log_probabilities(const Tensor& hidden_td, const Head& head,
                                              const Tensor& labels_t,
                                              const LogProbabilityOptions& options = {},
                                              const VocabularyRows& rows = {});
// The same, and rows without a label are computed too, so that the order of sums does not depend on the
// labels.
TokenLogProbabilities log_probabilities_of_all(const Tensor& hidden_td, const Head& head,
                                               const Tensor& labels_t, const LogProbabilityOptions& options,
                                               const VocabularyRows& rows);

}  // namespace longhaul::kernels
