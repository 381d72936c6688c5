// ParallelOps: everything in a model that may cross ranks, forward and, through autograd, backward. Blocks call these and nothing else that
// communicates, so a model is written once, plainly; LocalOps is the single process, parallel/ implements the rest.
//
// Tensors are this rank's. Between mixers hidden states are those of its own tokens [own tokens, hidden], inside a mixer those of all tokens of
// its context rank [tokens, …], with its share of the heads or of the inner channels (layout/sequence_view.h).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/embedding/op.h"
#include "kernels/linear/feed_forward.h"
#include "layout/sequence_view.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {  // attention/op.h, attention/paged.h, linear_recurrence/op.h: for those who call
struct AttentionOptions;
class KeyValueCache;
struct LinearRecurrenceOptions;
struct RecurrenceStates;
}  // namespace longhaul::kernels

namespace longhaul::model {

// Rows that this rank's experts work on, sorted by expert, and what brings their results back.
struct ExpertRows {
  Tensor rows;
  std::vector<int64_t> per_expert;  // of this rank's experts
  struct Way {
    virtual ~Way() = default;
  };
  std::shared_ptr<const Way> way;  // of from_experts
};

// A matrix [vocabulary, hidden] of which this rank has the rows from `first_row` on.
struct VocabularyShare {
  kernels::LinearWeights weights;
  int64_t first_row = 0;
};

class ParallelOps {
 public:
  virtual ~ParallelOps() = default;

  virtual int64_t tensor_ranks() const = 0;
  // [own tokens, …] → [tokens, …] of the tensor ranks together; the gradients of what they made of it are summed.
  virtual Tensor gather_tokens(const Tensor& own_td, const layout::SequenceView& view) = 0;
  // The conjugate: Σ over the tensor ranks of [tokens, …], of which this rank keeps its own.
  virtual Tensor sum_to_own_tokens(const Tensor& partial_td, const layout::SequenceView& view) = 0;

  // → o [tokens, heads, channels]. `states`: of the sequences that a decoding pass continues, which it changes; undefined: all begin at 0.
  virtual Tensor linear_recurrence(const Tensor& q_thd, const Tensor& k_thd, const Tensor& v_thd, const Tensor& log_decay,
                                   const kernels::RecurrenceStates& states, const layout::SequenceView& view,
                                   const kernels::LinearRecurrenceOptions& options) = 0;
  virtual Tensor attention(const Tensor& q_thd, const Tensor& k_thd, const Tensor& v_thd, const layout::SequenceView& view,
                           const kernels::AttentionOptions& options) = 0;
  // Decoding: the newest tokens of these sequences, whose keys and values the cache holds already.
  virtual Tensor attention_cached(const Tensor& q_thd, const layout::SequenceView& view, const kernels::KeyValueCache& cache,
                                  std::span<const int64_t> rows, const kernels::AttentionOptions& options) = 0;
  // RMSNorm, times sigmoid(gate) where there is a gate, over channels that are cut over the tensor ranks: the mean of squares, and one
  // scalar a token in backward, are summed.
  virtual Tensor rms_norm(const Tensor& x_tc, const Tensor& gate_tc, const Tensor& weight_c, double eps) = 0;

  // Rows of the vocabulary are dealt out over the tensor ranks. ids_t int64 [tokens] → [own tokens, hidden]; `positions`: the table of
  // learned positions, whole on every rank, or null.
  virtual Tensor embed(const Tensor& ids_t, const VocabularyShare& table, const kernels::EmbeddingTable* positions,
                       const layout::SequenceView& view) = 0;
  // Scalar: Σ of the loss over this context rank's labelled tokens (labels_t int64 [tokens]), the same on all its tensor ranks.
  virtual Tensor loss(const Tensor& hidden_td, const VocabularyShare& head, const Tensor& labels_t, const layout::SequenceView& view) = 0;

  // Rows sorted by expert, of all experts, go to the ranks that have these; and their results come back in the old order.
  virtual ExpertRows to_experts(const Tensor& rows_rd, const std::vector<int64_t>& rows_per_expert) = 0;
  virtual Tensor from_experts(const Tensor& rows_rd, const ExpertRows& sent) = 0;
  // Σ over the ranks that share a sequence, of a statistic of its tokens. No gradient.
  virtual Tensor sum_statistics(const Tensor& x) = 0;
};

class LocalOps final : public ParallelOps {
 public:
  int64_t tensor_ranks() const override { return 1; }
  Tensor gather_tokens(const Tensor& own_td, const layout::SequenceView&) override { return own_td; }
  Tensor sum_to_own_tokens(const Tensor& partial_td, const layout::SequenceView&) override { return partial_td; }
  Tensor linear_recurrence(const Tensor& q_thd, const Tensor& k_thd, const Tensor& v_thd, const Tensor& log_decay,
                           const kernels::RecurrenceStates& states, const layout::SequenceView& view,
                           const kernels::LinearRecurrenceOptions& options) override;
  Tensor attention(const Tensor& q_thd, const Tensor& k_thd, const Tensor& v_thd, const layout::SequenceView& view,
                   const kernels::AttentionOptions& options) override;
  Tensor attention_cached(const Tensor& q_thd, const layout::SequenceView& view, const kernels::KeyValueCache& cache,
                          std::span<const int64_t> rows, const kernels::AttentionOptions& options) override;
  Tensor rms_norm(const Tensor& x_tc, const Tensor& gate_tc, const Tensor& weight_c, double eps) override;
  Tensor embed(const Tensor& ids_t, const VocabularyShare& table, const kernels::EmbeddingTable* positions,
               const layout::SequenceView& view) override;
  Tensor loss(const Tensor& hidden_td, const VocabularyShare& head, const Tensor& labels_t, const layout::SequenceView& view) override;
  ExpertRows to_experts(const Tensor& rows_rd, const std::vector<int64_t>& rows_per_expert) override;
  Tensor from_experts(const Tensor& rows_rd, const ExpertRows&) override { return rows_rd; }
  Tensor sum_statistics(const Tensor& x) override { return x; }
};

}  // namespace longhaul::model
