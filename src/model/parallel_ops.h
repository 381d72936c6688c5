// ParallelOps: everything in a model that may cross ranks, forward and, through autograd, backward. Blocks call these and nothing else that
// communicates, so a model is written once, plainly; LocalOps is the single process, parallel/ implements the rest.
//
// Tensors are this rank's. Between mixers hidden states are those of its own tokens [own tokens, hidden], inside a mixer those of all tokens of
// its context rank [tokens, …], with its share of the heads or of the inner channels (layout/sequence_view.h).
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
    kernels {  // attention/op.h, attention/paged.h, linear_recurrence/op.h, short_convolution/op.h, delta_rule/op.h: who calls
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
}  // namespace longhaul::kernels

namespace longhaul::model {

// The experts that tokens go to, and what each of them counts there.
struct ExpertChoices {
  Tensor choice_tk;  // int64; −1: dropped
  Tensor weight_tk;  // as in kernels::Routing; differentiable
  int64_t experts = 0;
  bool every = true;  // none was dropped
  // Of experts with a capacity, what no rank exceeds, known to all of them from the layout: rows for one expert, tokens. 0: not known.
  int64_t most_rows = 0, most_tokens = 0;
};
// What this rank's experts make of rows sorted by expert: → rows, of which each rank that shares the experts' tensors has a partial sum.
// The gradients of weights wait in `later`; null: they come at once.
using ExpertProduct = std::function<Tensor(const Tensor& rows_rd, const std::vector<int64_t>& rows_per_expert,
                                           const std::shared_ptr<kernels::Postponed>& later)>;

// What a block reads: normed hidden states of this rank's own tokens, and, once a product asks for them, those of its tensor ranks together:
// gathered once, however many ask.
struct BlockInput {
  Tensor own_td;
  struct Part {  // of the gathered tokens; its rows are some of every rank's. ParallelOps makes parts and knows which rows they are.
    std::function<Tensor()> arrived;
    Tensor rows_td;
  };
  std::vector<Part> parts{};
};
// Matrices each row of which depends on its own row alone of what is given, so that they may be made of some rows before others are there.
using RowFunction = std::function<std::vector<Tensor>(const Tensor& rows_td)>;
// What a block gives to the residual stream. Where tensor ranks share its last matrix it is the sum of their products, of x or of the gathered
// tokens of the block's input, plus a bias that is added once; or it is there already.
struct Summand {
  std::function<Tensor(const Tensor& rows_ti)> product{};
  Tensor x_ti{};  // undefined: the block's input
  Tensor bias_d{};
  Tensor own_td{};  // instead of all these
};

// A matrix [vocabulary, hidden] of which this rank has the rows from `first_row` on.
struct VocabularyShare {
  kernels::LinearWeights weights;
  int64_t first_row = 0;
};

// Statistics of sequences, of all replicas in the order of the batch, and where this replica's begin.
struct OfReplicas {
  Tensor all;
  int64_t first = 0;
};

class ParallelOps {
 public:
  virtual ~ParallelOps() = default;

  virtual int64_t tensor_ranks() const = 0;
  // What `products` makes of the tokens of the tensor ranks together, [tokens, …] each; gradients of these tokens are summed.
  virtual std::vector<Tensor> of_gathered(BlockInput& input, const RowFunction& products, const layout::SequenceView& view) = 0;
  // The sum of all summands and, of each that is a product, over the tensor ranks: [own tokens, hidden].
  virtual Tensor summed(BlockInput& input, const std::vector<Summand>& summands, const layout::SequenceView& view) = 0;

  // → o [tokens, heads, channels]. `states`: of the sequences that a decoding pass continues, which it changes; undefined: all begin at 0.
  virtual Tensor linear_recurrence(const Tensor& q_thd, const Tensor& k_thd, const Tensor& v_thd, const Tensor& log_decay,
                                   const kernels::RecurrenceStates& states, const layout::SequenceView& view,
                                   const kernels::LinearRecurrenceOptions& options) = 0;
  // → o; its inputs without initial states and offsets. `states` as above.
  virtual Tensor delta_rule(const kernels::DeltaRuleInputs& in, const kernels::RecurrenceStates& states,
                            const layout::SequenceView& view) = 0;
  // Of this rank's channels. `states` as above.
  virtual Tensor short_convolution(const Tensor& x_tc, const Tensor& weight_cw, const Tensor& bias_c,
                                   const kernels::ConvolutionStates& states, const layout::SequenceView& view,
                                   const kernels::ShortConvolutionOptions& options) = 0;
  // Scans of this rank's channels (kernels/scan/op.h). `states` as above.
  virtual Tensor decayed_sum(const Tensor& a_tc, const Tensor& u_tc, const kernels::ScanStates& states,
                             const layout::SequenceView& view) = 0;
  virtual kernels::CumulativeSoftmax cumulative_softmax(const Tensor& x_tc, const kernels::ScanStates& states,
                                                        const layout::SequenceView& view) = 0;
  // Of this rank's channels (kernels/toeplitz/op.h). `states` as above.
  virtual Tensor toeplitz(const Tensor& x_tc, const Tensor& coefficient_ce, const Tensor& log_decay_e,
                          const kernels::ToeplitzStates& states, const layout::SequenceView& view) = 0;
  // Without an order, over whole documents (kernels/bidirectional/op.h), of this rank's channels and heads.
  virtual Tensor segment_softmax(const Tensor& x_tc, const layout::SequenceView& view) = 0;
  virtual Tensor bidirectional_attention(const Tensor& q_thk, const Tensor& k_thk, const Tensor& v_thv,
                                         const layout::SequenceView& view) = 0;
  virtual Tensor attention(const Tensor& q_thd, const Tensor& k_thd, const Tensor& v_thd, const layout::SequenceView& view,
                           const kernels::AttentionOptions& options) = 0;
  // Decoding: the newest tokens of these sequences, whose keys and values the cache holds already.
  virtual Tensor attention_cached(const Tensor& q_thd, const layout::SequenceView& view, const kernels::KeyValueCache& cache,
                                  std::span<const int64_t> rows, const kernels::AttentionOptions& options) = 0;
  // RMSNorm, times sigmoid(gate) where there is a gate, over channels that are cut over the tensor ranks: the mean of squares, and one
  // scalar a token in backward, are summed.
  virtual Tensor rms_norm(const Tensor& x_tc, const Tensor& gate_tc, const Tensor& weight_c, double eps) = 0;
  virtual Tensor layer_norm(const Tensor& x_tc, const Tensor& weight_c, double eps) = 0;  // likewise

  // Rows of the vocabulary are dealt out over the tensor ranks. ids_t int64 [tokens] → [own tokens, hidden]; `positions`: the table of
  // learned positions, whole on every rank, or null.
  virtual Tensor embed(const Tensor& ids_t, const VocabularyShare& table, const kernels::EmbeddingTable* positions,
                       const layout::SequenceView& view) = 0;
  // Scalar: Σ of the loss over this context rank's labelled tokens (labels_t int64 [tokens]), the same on all its tensor ranks.
  virtual Tensor loss(const Tensor& hidden_td, const VocabularyShare& head, const Tensor& labels_t, const layout::SequenceView& view) = 0;

  // Every token goes to its experts, wherever they are, and what they make of it comes back: Σ_k weight · product. [own tokens, hidden]
  virtual Tensor experts(const Tensor& hidden_td, const ExpertChoices& choices, const ExpertProduct& product) = 0;
  // Σ over the ranks that share a sequence, of a statistic of its tokens. No gradient.
  virtual Tensor sum_statistics(const Tensor& x) = 0;
  // x [sequences, …] of this replica's, of which all have as many → [replicas · sequences, …]. No gradient.
  virtual OfReplicas of_replicas(const Tensor& x) = 0;
};

class LocalOps final : public ParallelOps {
 public:
  int64_t tensor_ranks() const override { return 1; }
  std::vector<Tensor> of_gathered(BlockInput& input, const RowFunction& products, const layout::SequenceView&) override {
    return products(input.own_td);
  }
  Tensor summed(BlockInput& input, const std::vector<Summand>& summands, const layout::SequenceView& view) override;
  Tensor linear_recurrence(const Tensor& q_thd, const Tensor& k_thd, const Tensor& v_thd, const Tensor& log_decay,
                           const kernels::RecurrenceStates& states, const layout::SequenceView& view,
                           const kernels::LinearRecurrenceOptions& options) override;
  Tensor delta_rule(const kernels::DeltaRuleInputs& in, const kernels::RecurrenceStates& states, const layout::SequenceView& view) override;
  Tensor short_convolution(const Tensor& x_tc, const Tensor& weight_cw, const Tensor& bias_c, const kernels::ConvolutionStates& states,
                           const layout::SequenceView& view, const kernels::ShortConvolutionOptions& options) override;
  Tensor decayed_sum(const Tensor& a_tc, const Tensor& u_tc, const kernels::ScanStates& states, const layout::SequenceView& view) override;
  kernels::CumulativeSoftmax cumulative_softmax(const Tensor& x_tc, const kernels::ScanStates& states,
                                                const layout::SequenceView& view) override;
  Tensor toeplitz(const Tensor& x_tc, const Tensor& coefficient_ce, const Tensor& log_decay_e, const kernels::ToeplitzStates& states,
                  const layout::SequenceView& view) override;
  Tensor segment_softmax(const Tensor& x_tc, const layout::SequenceView& view) override;
  Tensor bidirectional_attention(const Tensor& q_thk, const Tensor& k_thk, const Tensor& v_thv, const layout::SequenceView& view) override;
  Tensor attention(const Tensor& q_thd, const Tensor& k_thd, const Tensor& v_thd, const layout::SequenceView& view,
                   const kernels::AttentionOptions& options) override;
  Tensor attention_cached(const Tensor& q_thd, const layout::SequenceView& view, const kernels::KeyValueCache& cache,
                          std::span<const int64_t> rows, const kernels::AttentionOptions& options) override;
  Tensor rms_norm(const Tensor& x_tc, const Tensor& gate_tc, const Tensor& weight_c, double eps) override;
  Tensor layer_norm(const Tensor& x_tc, const Tensor& weight_c, double eps) override;
  Tensor embed(const Tensor& ids_t, const VocabularyShare& table, const kernels::EmbeddingTable* positions,
               const layout::SequenceView& view) override;
  Tensor loss(const Tensor& hidden_td, const VocabularyShare& head, const Tensor& labels_t, const layout::SequenceView& view) override;
  Tensor experts(const Tensor& hidden_td, const ExpertChoices& choices, const ExpertProduct& product) override;
  Tensor sum_statistics(const Tensor& x) override { return x; }
  OfReplicas of_replicas(const Tensor& x) override { return {x, 0}; }
};

}  // namespace longhaul::model
