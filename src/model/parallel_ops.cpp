#include "model/parallel_ops.h"

#include "kernels/attention/op.h"
#include "kernels/attention/paged/paged.h"
#include "kernels/bidirectional/op.h"
#include "kernels/delta_rule/op.h"
#include "kernels/experts/sorted.h"
#include "kernels/linear_cross_entropy/log_probabilities.h"
#include "kernels/linear_recurrence/op.h"
#include "kernels/norm/op.h"
#include "kernels/scan/op.h"
#include "kernels/short_convolution/op.h"
#include "kernels/toeplitz/op.h"
#include "tensor/to_tensor.h"

namespace longhaul::model {

Tensor LocalOps::summed(BlockInput& input, const std::vector<Summand>& summands,
                        const layout::SequenceView&) {
  Tensor sum;
  for (const Summand& each : summands) {
    const Tensor made =
        each.own_td.defined() ? each.own_td : each.product(each.x_ti.defined() ? each.x_ti : input.own_td);
    sum = sum.defined() ? sum + made : made;
    if (each.bias_d.defined()) sum = sum + each.bias_d;
  }
  return sum;
}

Tensor LocalOps::linear_recurrence(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& log_decay,
                                   const kernels::RecurrenceStates& states, const layout::SequenceView& view,
                                   const kernels::LinearRecurrenceOptions& options) {
  const Tensor offsets = to_tensor(view.layout.document_offsets);
  if (states.state_shkv.defined())
    return kernels::linear_recurrence_continued(q, k, v, log_decay, states, offsets, options);
  return kernels::linear_recurrence(q, k, v, log_decay, Tensor(), offsets, options).o_thd;
}

Tensor LocalOps::delta_rule(const kernels::DeltaRuleInputs& in, const kernels::RecurrenceStates& states,
                            const layout::SequenceView& view) {
  kernels::DeltaRuleInputs packed = in;
  packed.offsets = to_tensor(view.layout.document_offsets);
  return states.state_shkv.defined() ? kernels::delta_rule_continued(packed, states)
                                     : kernels::delta_rule(packed).o_thd;
}

Tensor LocalOps::short_convolution(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                   const kernels::ConvolutionStates& states, const layout::SequenceView& view,
                                   const kernels::ShortConvolutionOptions& options) {
  const Tensor offsets = to_tensor(view.layout.document_offsets);
  if (states.state_swc.defined())
    return kernels::short_convolution_continued(x, weight, bias, states, offsets, options);
  return kernels::short_convolution(x, weight, bias, offsets, Tensor(), options).y_tc;
}

Tensor LocalOps::decayed_sum(const Tensor& a, const Tensor& u, const kernels::ScanStates& states,
                             const layout::SequenceView& view) {
  const Tensor offsets = to_tensor(view.layout.document_offsets);
  if (states.state_sc.defined()) return kernels::decayed_sum_continued(a, u, states, offsets);
  return kernels::decayed_sum(a, u, offsets, Tensor()).h_tc;
}

kernels::CumulativeSoftmax LocalOps::cumulative_softmax(const Tensor& x, const kernels::ScanStates& states,
                                                        const layout::SequenceView& view) {
  const Tensor offsets = to_tensor(view.layout.document_offsets);
  if (states.state_sc.defined()) return kernels::cumulative_softmax_continued(x, states, offsets);
  return kernels::cumulative_softmax(x, offsets, Tensor());
}

Tensor LocalOps::toeplitz(const Tensor& x, const Tensor& coefficient, const Tensor& log_decay,
                          const kernels::ToeplitzStates& states, const layout::SequenceView& view) {
  const Tensor offsets = to_tensor(view.layout.document_offsets);
  if (states.state_sed.defined())
    return kernels::toeplitz_continued(x, coefficient, log_decay, states, offsets);
  return kernels::toeplitz(x, coefficient, log_decay, offsets, Tensor(), /*with_state=*/false).y_td;
}

Tensor LocalOps::segment_softmax(const Tensor& x, const layout::SequenceView& view) {
  return kernels::segment_softmax(x, to_tensor(view.layout.document_offsets));
}

Tensor LocalOps::bidirectional_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                         const layout::SequenceView& view) {
  return kernels::bidirectional_attention(q, k, v, to_tensor(view.layout.document_offsets));
}

Tensor LocalOps::attention(const Tensor& q, const Tensor& k, const Tensor& v,
                           const layout::SequenceView& view, const kernels::AttentionOptions& options) {
  return kernels::attention(q, k, v, to_tensor(view.layout.document_offsets), Tensor(), options).o_thd;
}

Tensor LocalOps::cross_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                 const layout::SequenceView& view, const layout::SequenceView& memory,
                                 const kernels::AttentionOptions& options) {
  return kernels::attention(q, k, v, to_tensor(view.layout.document_offsets),
                            to_tensor(memory.layout.document_offsets), options)
      .o_thd;
}

Tensor LocalOps::attention_cached(const Tensor& q, const layout::SequenceView& view,
                                  const kernels::KeyValueCache& cache, std::span<const int64_t> rows,
                                  const kernels::AttentionOptions& options) {
  return kernels::attention_paged(q, to_tensor(view.layout.document_offsets), cache, rows, options).o_thd;
}

Tensor LocalOps::rms_norm(const Tensor& x, const Tensor& gate, const Tensor& weight, double eps) {
  return kernels::rms_norm(x, weight, eps, gate);
}

Tensor LocalOps::layer_norm(const Tensor& x, const Tensor& weight, double eps) {
  return kernels::layer_norm(x, weight, Tensor(), eps);
}

Tensor LocalOps::embed(const Tensor& ids, const VocabularyShare& table,
                       const kernels::EmbeddingTable* positions, const layout::SequenceView& view) {
  const kernels::EmbeddingTable rows{table.weights.weight, table.weights.sinks.weight};
  if (positions == nullptr) return kernels::embedding(ids, rows);
  return kernels::embedding(ids, rows, to_tensor(view.positions_of_axis(0)), *positions);
}

Tensor LocalOps::loss(const Tensor& hidden, const VocabularyShare& head, const Tensor& labels,
                      const layout::SequenceView&) {
  return kernels::linear_cross_entropy_sum(hidden, head.weights.weight, labels, head.weights.sinks.weight, {},
                                           head.weights.kept);
}

kernels::TokenLogProbabilities LocalOps::log_probabilities(const Tensor& hidden, const VocabularyShare& head,
                                                           const Tensor& labels, const layout::SequenceView&,
                                                           const kernels::LogProbabilityOptions& options) {
  return kernels::token_log_probabilities(
      hidden, {head.weights.weight, head.weights.sinks.weight, head.weights.kept}, labels, options);
}

Tensor LocalOps::experts(const Tensor& hidden, const ExpertChoices& choices, const ExpertProduct& product) {
  const kernels::SortedByExpert sorted(choices.choice_tk, {.count = choices.experts}, choices.every);
  return sorted.back(product(sorted.rows(hidden), sorted.rows_per_expert(), nullptr), choices.weight_tk);
}

}  // namespace longhaul::model
