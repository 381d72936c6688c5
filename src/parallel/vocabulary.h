// The loss of a head whose vocabulary is dealt out over ranks: each makes the logits of its own rows, the log-sum-exp and the label's logit
// are put together.
#pragma once

#include "comm/communicator.h"
#include "model/parallel_ops.h"

namespace longhaul::parallel {

// hidden_td [tokens, hidden] and labels_t int64 [tokens] (−1: none), the same on all ranks → scalar, Σ of the loss, likewise. Differentiable
// in hidden: each rank gives the gradient that its own rows make; the weight's is added to its sink.
Tensor vocabulary_loss(comm::Communicator& group, const Tensor& hidden_td, const model::VocabularyShare& head, const Tensor& labels_t);

}  // namespace longhaul::parallel
