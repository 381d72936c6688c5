// ParallelOps: every operation of a model that may cross ranks, forward and, through autograd, backward.
// Blocks communicate through these functions only, so a model is written once, without communication;
// LocalOps implements them for a single process, and src/parallel for several ranks.
//
// All tensors are this rank's. Between mixers, hidden states are those of its own tokens [own tokens,
// hidden]; inside a mixer they are those of all tokens of its context rank [tokens, …], with this rank's
// share of the heads or of the inner channels (layout/sequence_view.h).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/embedding/op.h"
#include "kernels/linear/feed_forward.h"
#include "layout/sequence_view.h"
#include "tensor/tensor.h"

namespace longhaul::
    // attention/op.h, attention/paged.h, linear_recurrence/op.h, short_convolution/op.h, delta_rule/op.h: who
    // calls
    kernels {
struct AttentionOptions;
class KeyValueCache;
struct LinearRecurrenceOptions;
struct RecurrenceStates;
struct ConvolutionStates;
struct ShortConvolutionOptions;
struct ScanStates;  // scan/op.h
struct CumulativeSoftmax;
struct ToeplitzStates;  // toeplitz/op.h
struct DeltaRuleInputs;
struct LogProbabilityOptions;  // linear_cross_entropy/log_probabilities.h
struct TokenLogProbabilities;
}  // namespace longhaul::kernels

namespace longhaul::model {

// The experts to which tokens go, and the weight of each choice.
struct ExpertChoices {
  Tensor choice_tk;  // int64; −1: dropped
  Tensor weight_tk;  // as in kernels::Routing; differentiable
  int64_t experts = 0;
  bool every = true;  // true: no choice was dropped
  // For experts with a capacity: bounds that no rank exceeds, known to all ranks from the layout: rows for
  // one expert, and tokens. 0: unknown.
  int64_t most_rows = 0, most_tokens = 0;
};
// The results of this rank's experts for rows sorted by expert; where ranks share the tensors of experts,
// each returns a partial sum. Weight gradients are postponed in `later`; null: they are computed at once.
using ExpertProduct = std::function<Tensor(const Tensor& rows_rd, const std::vector<int64_t>& rows_per_expert,
                                           const std::shared_ptr<kernels::Postponed>& later)>;

// The input of a block: normed hidden states of this rank's own tokens and, once a product needs them, those
// of all its tensor ranks, gathered once for all products.
struct BlockInput {
  Tensor own_td;
  // a part of the gathered tokens, with some rows of every rank. ParallelOps makes the parts and knows their
  // rows.
  struct Part {
    std::function<Tensor()> arrived;
    Tensor rows_td;
  };
  std::vector<Part> parts{};
};
// Functions that compute matrices row by row, so that some rows can be computed before others arrive.
using RowFunction = std::function<std::vector<Tensor>(const Tensor& rows_td)>;
// The contribution of a block to the residual stream. Where tensor ranks share its last matrix, it is the sum
// of their products, of x or of the gathered tokens of the block's input, plus a bias that is added once;
// otherwise it is given as a tensor.
struct Summand {
  std::function<Tensor(const Tensor& rows_ti)> product{};
  Tensor x_ti{};  // undefined: the block's input
  Tensor bias_d{};
  Tensor own_td{};  // instead of all these
};

// A matrix [vocabulary, hidden] of which this rank has the rows from `first_row` on.
struct VocabularyShare {
  kernels::LinearWeights weights;
  int64_t first_row = 0, vocabulary = 0;
};

// Statistics of the sequences of all replicas in the order of the batch, and the index at which this
// replica's begin.
struct OfReplicas {
  Tensor all;
  int64_t first = 0;
};

class ParallelOps {
 public:
  virtual ~ParallelOps() = default;

  virtual int64_t tensor_ranks() const = 0;
  // The results of `products` for the tokens of all tensor ranks together, [tokens, …] each; the gradients of
  // these tokens are summed.
  virtual std::vector<Tensor> of_gathered(BlockInput& input, const RowFunction& products,
                                          const layout::SequenceView& view) = 0;
  // The sum of all summands; a summand that is a product is also summed over the tensor ranks. [own tokens,
  // hidden].
  virtual Tensor summed(BlockInput& input, const std::vector<Summand>& summands,
                        const layout::SequenceView& view) = 0;

  // Returns o [tokens, heads, channels]. `states`: those of the sequences that a decoding pass continues,
  // which it updates; undefined: all start at 0.
  virtual Tensor linear_recurrence(const Tensor& q_thd, const Tensor& k_thd, const Tensor& v_thd,
                                   const Tensor& log_decay, const kernels::RecurrenceStates& states,
                                   const layout::SequenceView& view,
                                   const kernels::LinearRecurrenceOptions& options) = 0;
  // Returns o. The inputs have no initial states and offsets. `states` as above.
  virtual Tensor delta_rule(const kernels::DeltaRuleInputs& in, const kernels::RecurrenceStates& states,
                            const layout::SequenceView& view) = 0;
  // For this rank's channels. `states` as above.
  virtual Tensor short_convolution(const Tensor& x_tc, const Tensor& weight_cw, const Tensor& bias_c,
                                   const kernels::ConvolutionStates& states, const layout::SequenceView& view,
                                   const kernels::ShortConvolutionOptions& options) = 0;
  // Scans over this rank's channels (kernels/scan/op.h). `states` as above.
  virtual Tensor decayed_sum(const Tensor& a_tc, const Tensor& u_tc, const kernels::ScanStates& states,
                             const layout::SequenceView& view) = 0;
  virtual kernels::CumulativeSoftmax cumulative_softmax(const Tensor& x_tc, const kernels::ScanStates& states,
                                                        const layout::SequenceView& view) = 0;
  // The Toeplitz operator for this rank's channels (kernels/toeplitz/op.h). `states` as above.
  virtual Tensor toeplitz(const Tensor& x_tc, const Tensor& coefficient_ce, const Tensor& log_decay_e,
                          const kernels::ToeplitzStates& states, const layout::SequenceView& view) = 0;
  // Bidirectional operators over whole documents (kernels/bidirectional/op.h), for this rank's channels and
  // heads.
  virtual Tensor segment_softmax(const Tensor& x_tc, const layout::SequenceView& view) = 0;
  virtual Tensor bidirectional_attention(const Tensor& q_thk, const Tensor& k_thk, const Tensor& v_thv,
                                         const layout::SequenceView& view) = 0;
  virtual Tensor attention(const Tensor& q_thd, const Tensor& k_thd, const Tensor& v_thd,
                           const layout::SequenceView& view, const kernels::AttentionOptions& options) = 0;
  // Attention of the queries' documents to those of a memory (model/outside/memory.h), whose keys and values
  // are given for all rows of this context rank's share of it.
  virtual Tensor cross_attention(const Tensor& q_thd, const Tensor& k_shd, const Tensor& v_shd,
                                 const layout::SequenceView& view, const layout::SequenceView& memory,
                                 const kernels::AttentionOptions& options) = 0;
  // Decoding attention for the newest tokens of these sequences, whose keys and values are already in the
  // cache.
  virtual Tensor attention_cached(const Tensor& q_thd, const layout::SequenceView& view,
                                  const kernels::KeyValueCache& cache, std::span<const int64_t> rows,
                                  const kernels::AttentionOptions& options) = 0;
  // RMSNorm, multiplied by sigmoid(gate) where there is a gate, over channels that are cut over the tensor
  // ranks: the mean of squares and, in the backward pass, one scalar for each token are summed over these
  // ranks.
  virtual Tensor rms_norm(const Tensor& x_tc, const Tensor& gate_tc, const Tensor& weight_c, double eps) = 0;
  virtual Tensor layer_norm(const Tensor& x_tc, const Tensor& weight_c, double eps) = 0;  // likewise

  // The embedding; rows of the vocabulary are dealt out over the tensor ranks. ids_t int64 [tokens] → [own
  // tokens, hidden]; `positions`: the table of learned positions, whole on every rank, or null.
  virtual Tensor embed(const Tensor& ids_t, const VocabularyShare& table,
                       const kernels::EmbeddingTable* positions, const layout::SequenceView& view) = 0;
  // The loss summed over this context rank's labelled tokens (labels_t int64 [tokens]), a scalar that is the
  // same on all its tensor ranks.
  virtual Tensor loss(const Tensor& hidden_td, const VocabularyShare& head, const Tensor& labels_t,
                      const layout::SequenceView& view) = 0;
  // The log-probability of each of these labels, [tokens], the same on all tensor ranks of this context rank;
  // so must be the gradients that come back.
  virtual kernels::TokenLogProbabilities log_probabilities(const Tensor& hidden_td,
                                                           const VocabularyShare& head,
                                                           const Tensor& labels_t,
                                                           const layout::SequenceView& view,
                                                           const kernels::LogProbabilityOptions& options) = 0;

  // Sends every token to its experts, on whatever rank they are, and returns the weighted sum of their
  // results: Σ_k weight · product. [own tokens, hidden]
  virtual Tensor experts(const Tensor& hidden_td, const ExpertChoices& choices,
                         const ExpertProduct& product) = 0;
  // The sum of a statistic of a sequence's tokens over the ranks that share the sequence. No gradient.
  virtual Tensor sum_statistics(const Tensor& x) = 0;
  // x [sequences, …] of this replica's, of which all have as many → [replicas · sequences, …]. No gradient.
  virtual OfReplicas of_replicas(const Tensor& x) = 0;
};

class LocalOps final : public ParallelOps {
 public:
  int64_t tensor_ranks() const override { return 1; }
  std::vector<Tensor> of_gathered(BlockInput& input, const RowFunction& products,
                                  const layout::SequenceView&) override {
    return products(input.own_td);
  }
  Tensor summed(BlockInput& input, const std::vector<Summand>& summands,
                const layout::SequenceView& view) override;
  Tensor linear_recurrence(const Tensor& q_thd, const Tensor& k_thd, const Tensor& v_thd,
                           const Tensor& log_decay, const kernels::RecurrenceStates& states,
                           const layout::SequenceView& view,
                           const kernels::LinearRecurrenceOptions& options) override;
  Tensor delta_rule(const kernels::DeltaRuleInputs& in, const kernels::RecurrenceStates& states,
                    const layout::SequenceView& view) override;
  Tensor short_convolution(const Tensor& x_tc, const Tensor& weight_cw, const Tensor& bias_c,
                           const kernels::ConvolutionStates& states, const layout::SequenceView& view,
                           const kernels::ShortConvolutionOptions& options) override;
  Tensor decayed_sum(const Tensor& a_tc, const Tensor& u_tc, const kernels::ScanStates& states,
                     const layout::SequenceView& view) override;
  kernels::CumulativeSoftmax cumulative_softmax(const Tensor& x_tc, const kernels::ScanStates& states,
                                                const layout::SequenceView& view) override;
  Tensor toeplitz(const Tensor& x_tc, const Tensor& coefficient_ce, const Tensor& log_decay_e,
                  const kernels::ToeplitzStates& states, const layout::SequenceView& view) override;
  Tensor segment_softmax(const Tensor& x_tc, const layout::SequenceView& view) override;
  Tensor bidirectional_attention(const Tensor& q_thk, const Tensor& k_thk, const Tensor& v_thv,
                                 const layout::SequenceView& view) override;
  Tensor attention(const Tensor& q_thd, const Tensor& k_thd, const Tensor& v_thd,
                   const layout::SequenceView& view, const kernels::AttentionOptions& options) override;
  Tensor cross_attention(const Tensor& q_thd, const Tensor& k_shd, const Tensor& v_shd,
                         const layout::SequenceView& view, const layout::SequenceView& memory,
                         const kernels::AttentionOptions& options) override;
  Tensor attention_cached(const Tensor& q_thd, const layout::SequenceView& view,
                          const kernels::KeyValueCache& cache, std::span<const int64_t> rows,
                          const kernels::AttentionOptions& options) override;
  Tensor rms_norm(const Tensor& x_tc, const Tensor& gate_tc, const Tensor& weight_c, double eps) override;
  Tensor layer_norm(const Tensor& x_tc, const Tensor& weight_c, double eps) override;
  Tensor embed(const Tensor& ids_t, const VocabularyShare& table, const kernels::EmbeddingTable* positions,
               const layout::SequenceView& view) override;
  Tensor loss(const Tensor& hidden_td, const VocabularyShare& head, const Tensor& labels_t,
              const layout::SequenceView& view) override;
  kernels::TokenLogProbabilities log_probabilities(const Tensor& hidden_td, const VocabularyShare& head,
                                                   const Tensor& labels_t, const layout::SequenceView& view,
                                                   const kernels::LogProbabilityOptions& options) override;
  Tensor experts(const Tensor& hidden_td, const ExpertChoices& choices,
                 const ExpertProduct& product) override;
  Tensor sum_statistics(const Tensor& x) override { return x; }
  OfReplicas of_replicas(const Tensor& x) override { return {x, 0}; }
};

}  // namespace longhaul::model
