// The loss of a head whose vocabulary is dealt out over ranks: each rank computes the logits of its own rows,
// and the ranks combine the log-sum-exp and the logit of the label.
#pragma once

#include "comm/communicator.h"
#include "kernels/linear_cross_entropy/log_probabilities.h"
#include "model/parallel_ops.h"

namespace longhaul::parallel {

// hidden_td [tokens, hidden] and labels_t int64 [tokens] (−1: none) are the same on all ranks. Returns the
// summed loss, the same scalar on all ranks. Differentiable in hidden: each rank returns the part of the
// gradient that its own rows contribute; the weight gradient is added to its sink.
Tensor vocabulary_loss(comm::Communicator& group, const Tensor& hidden_td, const model::VocabularyShare& head,
                       const Tensor& labels_t);

// The log-probability of each token's label, likewise (kernels/linear_cross_entropy/log_probabilities.h): the
// same on all ranks, and so must be the gradient that comes back.
kernels::TokenLogProbabilities vocabulary_log_probabilities(comm::Communicator& group,
                                                            const Tensor& hidden_td,
                                                            const model::VocabularyShare& head,
                                                            const Tensor& labels_t,
                                                            const kernels::LogProbabilityOptions& options);

}  // namespace longhaul::parallel
