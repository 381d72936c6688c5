// MeshOps: the exchanges between ranks that a model asks for, on a mesh. The results are exact under every
// layout (`longhaul prove`).
//
//   tp        A rank's own tokens are gathered before the first product of a mixer; after its last product
//             the partial sums are reduced and cut, in parts (tensor_parts.h). The rows of embedding and head
//             are dealt out by vocabulary.
//   cp        Attention and recurrences use the methods of context_attention.h and context_recurrence.h.
//   ep, etp   Tokens go to the ranks that hold their experts and come back (expert_dispatch.h).
#pragma once

#include "base/threads/turns.h"
#include "model/parallel_ops.h"
#include "parallel/mesh_groups.h"
#include "recipe/sections/parallel_options.h"

namespace longhaul::parallel {

class MeshOps final : public model::ParallelOps {
 public:
  MeshOps(const MeshGroups& groups, const recipe::ContextOptions& context,
          const recipe::ExpertOptions& experts, int64_t tensor_chunks = 1, Turns* turns = nullptr)
      : groups_(groups), context_(context), experts_(experts), tensor_chunks_(tensor_chunks), turns_(turns) {}

  int64_t tensor_ranks() const override { return groups_.size(layout::Axis::kTp); }
  std::vector<Tensor> of_gathered(model::BlockInput& input, const model::RowFunction& products,
                                  const layout::SequenceView& view) override;
  Tensor summed(model::BlockInput& input, const std::vector<model::Summand>& summands,
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
  Tensor embed(const Tensor& ids_t, const model::VocabularyShare& table,
               const kernels::EmbeddingTable* positions, const layout::SequenceView& view) override;
  Tensor loss(const Tensor& hidden_td, const model::VocabularyShare& head, const Tensor& labels_t,
              const layout::SequenceView& view) override;
  kernels::TokenLogProbabilities log_probabilities(const Tensor& hidden_td,
                                                   const model::VocabularyShare& head, const Tensor& labels_t,
                                                   const layout::SequenceView& view,
                                                   const kernels::LogProbabilityOptions& options) override;
  Tensor experts(const Tensor& hidden_td, const model::ExpertChoices& choices,
                 const model::ExpertProduct& product) override;
  Tensor sum_statistics(const Tensor& x) override;
  model::OfReplicas of_replicas(const Tensor& x) override;

 private:
  comm::Communicator& tensor_group() const { return groups_.over({layout::Axis::kTp}); }

  const MeshGroups& groups_;
  recipe::ContextOptions context_;
  recipe::ExpertOptions experts_;
  int64_t tensor_chunks_;  // parallel.tp_chunks
  Turns* turns_;           // the turns of paired passes; null: passes are not paired
  model::LocalOps local_;
};

}  // namespace longhaul::parallel
