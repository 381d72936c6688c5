#include "parallel/mesh_ops.h"

#include "base/error.h"
#include "kernels/attention/op.h"
#include "kernels/linear_recurrence/op.h"
#include "kernels/toeplitz/op.h"
#include "parallel/collectives.h"
#include "parallel/context/context_attention.h"
#include "parallel/context/context_bidirectional.h"
#include "parallel/context/context_carry.h"
#include "parallel/context/context_cross_attention.h"
#include "parallel/context/context_delta_rule.h"
#include "parallel/context/context_recurrence.h"
#include "parallel/experts/expert_dispatch.h"
#include "parallel/tensor_parts.h"
#include "parallel/vocabulary.h"
#include "tensor/to_tensor.h"

namespace longhaul::parallel {

using layout::Axis;
using layout::SequenceView;

std::vector<Tensor> MeshOps::of_gathered(model::BlockInput& input, const model::RowFunction& products,
                                         const SequenceView& view) {
  if (tensor_ranks() == 1) return local_.of_gathered(input, products, view);
  return TensorParts(tensor_group(), view.tensor_lengths(), tensor_chunks_).of_gathered(input, products);
}

Tensor MeshOps::summed(model::BlockInput& input, const std::vector<model::Summand>& summands,
                       const SequenceView& view) {
  if (tensor_ranks() == 1) return local_.summed(input, summands, view);
  return TensorParts(tensor_group(), view.tensor_lengths(), tensor_chunks_).summed(input, summands);
}

Tensor MeshOps::linear_recurrence(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& log_decay,
                                  const kernels::RecurrenceStates& states, const SequenceView& view,
                                  const kernels::LinearRecurrenceOptions& options) {
  if (view.share.context_ranks == 1)
    return local_.linear_recurrence(q, k, v, log_decay, states, view, options);
  LONGHAUL_ASSERT(!states.state_shkv.defined(), "decoding runs on one context rank");
  return context_recurrence(context_.linear, groups_.over({Axis::kCp}), q, k, v, log_decay, view, options);
}

Tensor MeshOps::delta_rule(const kernels::DeltaRuleInputs& in, const kernels::RecurrenceStates& states,
                           const SequenceView& view) {
  if (view.share.context_ranks == 1) return local_.delta_rule(in, states, view);
  LONGHAUL_ASSERT(!states.state_shkv.defined(), "decoding runs on one context rank");
  return context_delta_rule(context_.linear, groups_.over({Axis::kCp}), in, view);
}

Tensor MeshOps::short_convolution(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                  const kernels::ConvolutionStates& states, const SequenceView& view,
                                  const kernels::ShortConvolutionOptions& options) {
  if (view.share.context_ranks == 1) return local_.short_convolution(x, weight, bias, states, view, options);
  LONGHAUL_ASSERT(!states.state_swc.defined(), "decoding runs on one context rank");
  return context_convolution(groups_.over({Axis::kCp}), x, weight, bias, view, options);
}

Tensor MeshOps::decayed_sum(const Tensor& a, const Tensor& u, const kernels::ScanStates& states,
                            const SequenceView& view) {
  if (view.share.context_ranks == 1) return local_.decayed_sum(a, u, states, view);
  LONGHAUL_ASSERT(!states.state_sc.defined(), "decoding runs on one context rank");
  return context_decayed_sum(groups_.over({Axis::kCp}), a, u, view);
}

kernels::CumulativeSoftmax MeshOps::cumulative_softmax(const Tensor& x, const kernels::ScanStates& states,
                                                       const SequenceView& view) {
  if (view.share.context_ranks == 1) return local_.cumulative_softmax(x, states, view);
  LONGHAUL_ASSERT(!states.state_sc.defined(), "decoding runs on one context rank");
  return context_cumulative_softmax(groups_.over({Axis::kCp}), x, view);
}

Tensor MeshOps::toeplitz(const Tensor& x, const Tensor& coefficient, const Tensor& log_decay,
                         const kernels::ToeplitzStates& states, const SequenceView& view) {
  if (view.share.context_ranks == 1) return local_.toeplitz(x, coefficient, log_decay, states, view);
  LONGHAUL_ASSERT(!states.state_sed.defined(), "decoding runs on one context rank");
  return context_toeplitz(groups_.over({Axis::kCp}), x, coefficient, log_decay, view);
}

Tensor MeshOps::segment_softmax(const Tensor& x, const SequenceView& view) {
  if (view.share.context_ranks == 1) return local_.segment_softmax(x, view);
  return context_segment_softmax(groups_.over({Axis::kCp}), x, view);
}

Tensor MeshOps::bidirectional_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                        const SequenceView& view) {
  if (view.share.context_ranks == 1) return local_.bidirectional_attention(q, k, v, view);
  return context_bidirectional_attention(groups_.over({Axis::kCp}), q, k, v, view);
}

Tensor MeshOps::attention(const Tensor& q, const Tensor& k, const Tensor& v, const SequenceView& view,
                          const kernels::AttentionOptions& options) {
  if (view.share.context_ranks == 1) return local_.attention(q, k, v, view, options);
  return context_attention(context_.softmax, groups_.over({Axis::kCp}), q, k, v, view, options);
}

Tensor MeshOps::cross_attention(const Tensor& q, const Tensor& k, const Tensor& v, const SequenceView& view,
                                const SequenceView& memory, const kernels::AttentionOptions& options) {
  if (view.share.context_ranks == 1) return local_.cross_attention(q, k, v, view, memory, options);
  return context_cross_attention(groups_.over({Axis::kCp}), q, k, v, view, memory, options);
}

Tensor MeshOps::attention_cached(const Tensor& q, const SequenceView& view,
                                 const kernels::KeyValueCache& cache, std::span<const int64_t> rows,
                                 const kernels::AttentionOptions& options) {
  return local_.attention_cached(q, view, cache, rows, options);  // heads by themselves
}

Tensor MeshOps::rms_norm(const Tensor& x, const Tensor& gate, const Tensor& weight, double eps) {
  if (tensor_ranks() == 1) return local_.rms_norm(x, gate, weight, eps);
  const ScalarType wide = weight.scalar_type();
  const Tensor z = x.to(wide), squares = sum_everywhere(tensor_group(), z.square().sum(1, /*keepdim=*/true),
                                                        "squares of a norm");
  const Tensor y = z.mul(squares.div(x.size(1) * tensor_ranks()).add(eps).rsqrt()).mul(weight);
  return (gate.defined() ? y.mul(gate.to(wide).sigmoid()) : y).to(x.scalar_type());
}

Tensor MeshOps::layer_norm(const Tensor& x, const Tensor& weight, double eps) {
  if (tensor_ranks() == 1) return local_.layer_norm(x, weight, eps);
  const Tensor z = x.to(weight.scalar_type()),
               sum = sum_everywhere(tensor_group(), z.sum(1, /*keepdim=*/true), "mean of a norm");
  return rms_norm(z.sub(sum.div(x.size(1) * tensor_ranks())), Tensor(), weight, eps).to(x.scalar_type());
}

Tensor MeshOps::embed(const Tensor& ids, const model::VocabularyShare& table,
                      const kernels::EmbeddingTable* positions, const SequenceView& view) {
  if (tensor_ranks() == 1) return local_.embed(ids, table, positions, view);
  const kernels::EmbeddingTable rows{table.weights.weight, table.weights.sinks.weight};
  const Tensor partial = kernels::embedding_of_share(ids, rows, table.first_row, table.vocabulary);
  const Tensor own = sum_scatter_rows(tensor_group(), partial, view.tensor_lengths(), kTensorProducts);
  if (positions == nullptr) return own;
  const auto of_own = view.positions_of_axis(0).subspan(static_cast<size_t>(view.own.begin),
                                                        static_cast<size_t>(view.own.length));
  return own + kernels::embedding(to_tensor(of_own), *positions);
}

Tensor MeshOps::loss(const Tensor& hidden, const model::VocabularyShare& head, const Tensor& labels,
                     const SequenceView& view) {
  if (tensor_ranks() == 1) return local_.loss(hidden, head, labels, view);
  LONGHAUL_ASSERT(labels.size(0) == view.tokens(), "{} labels, a view of {}", labels.size(0), view.tokens());
  const Tensor all = gather_rows(tensor_group(), hidden, view.tensor_lengths(), kTensorTokens);
  return vocabulary_loss(tensor_group(), all, head, labels);
}

kernels::TokenLogProbabilities MeshOps::log_probabilities(const Tensor& hidden,
                                                          const model::VocabularyShare& head,
                                                          const Tensor& labels, const SequenceView& view,
                                                          const kernels::LogProbabilityOptions& options) {
  if (tensor_ranks() == 1) return local_.log_probabilities(hidden, head, labels, view, options);
  LONGHAUL_ASSERT(labels.size(0) == view.tokens(), "{} labels, a view of {}", labels.size(0), view.tokens());
  const Tensor all = gather_rows(tensor_group(), hidden, view.tensor_lengths(), kTensorTokens);
  return vocabulary_log_probabilities(tensor_group(), all, head, labels, options);
}

Tensor MeshOps::experts(const Tensor& hidden, const model::ExpertChoices& choices,
                        const model::ExpertProduct& product) {
  if (groups_.size(Axis::kEp) == 1 && groups_.size(Axis::kEtp) == 1)
    return local_.experts(hidden, choices, product);
  return dispatch_to_experts(groups_, experts_, hidden, choices, product, turns_);
}

Tensor MeshOps::sum_statistics(const Tensor& x) {
  const Tensor sum = x.detach().clone();
  groups_.over({Axis::kCp, Axis::kTp})
      .all_reduce(sum, comm::Reduction::kSum, {.name = "statistics of sequences"})
      .wait();
  return sum;
}

model::OfReplicas MeshOps::of_replicas(const Tensor& x) {
  comm::Communicator& replicas = groups_.over({Axis::kDp});
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes[0] *= replicas.size();
  const Tensor all = at::empty(sizes, x.options());
  replicas.all_gather(x.detach().contiguous(), all, {.name = "statistics of all sequences"}).wait();
  return {all, replicas.rank() * x.size(0)};
}

}  // namespace longhaul::parallel
