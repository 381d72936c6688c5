// ParallelOps: everything in a model that may cross ranks. Blocks call these and nothing else that communicates, so a model is
// written once, plainly; LocalOps is the single process, parallel/ implements the rest.
// Tensors are this rank's: [local tokens, …] for hidden states, the rank's heads for mixers.
#pragma once

#include "layout/sequence.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {  // attention/op.h, attention/paged.h, linear_recurrence/op.h: for those who call
struct AttentionOptions;
class KeyValueCache;
struct LinearRecurrenceOptions;
struct LinearRecurrenceResult;
}  // namespace longhaul::kernels

namespace longhaul::model {

class ParallelOps {
 public:
  virtual ~ParallelOps() = default;

  virtual kernels::LinearRecurrenceResult linear_recurrence(const Tensor& q_thd, const Tensor& k_thd, const Tensor& v_thd,
                                                            const Tensor& log_decay_h, const Tensor& initial_state_nhkv,
                                                            const layout::SequenceLayout& layout,
                                                            const kernels::LinearRecurrenceOptions& options) = 0;
  virtual Tensor attention(const Tensor& q_thd, const Tensor& k_thd, const Tensor& v_thd, const layout::SequenceLayout& layout,
                           const kernels::AttentionOptions& options) = 0;
  // Decoding: the newest tokens of one sequence, whose keys and values the cache holds already.
  virtual Tensor attention_cached(const Tensor& q_thd, const kernels::KeyValueCache& cache, const kernels::AttentionOptions& options) = 0;
  // RMSNorm, times sigmoid(gate) where there is a gate, over channels that are cut over the tensor ranks: the mean of squares, and one
  // scalar a token in backward, are summed.
  virtual Tensor rms_norm(const Tensor& x_tc, const Tensor& gate_tc, const Tensor& weight_c, double eps) = 0;
  // Sum over the tensor ranks of a product whose inner dimension is cut over them.
  virtual Tensor sum_over_tensor_ranks(const Tensor& x_td) = 0;
  // Σ over all ranks that share the tokens of an auxiliary statistic (routed tokens per expert, mean probabilities).
  virtual Tensor sum_statistics(const Tensor& x) = 0;
};

class LocalOps final : public ParallelOps {
 public:
  kernels::LinearRecurrenceResult linear_recurrence(const Tensor& q_thd, const Tensor& k_thd, const Tensor& v_thd,
                                                    const Tensor& log_decay_h, const Tensor& initial_state_nhkv,
                                                    const layout::SequenceLayout& layout,
                                                    const kernels::LinearRecurrenceOptions& options) override;
  Tensor attention(const Tensor& q_thd, const Tensor& k_thd, const Tensor& v_thd, const layout::SequenceLayout& layout,
                   const kernels::AttentionOptions& options) override;
  Tensor attention_cached(const Tensor& q_thd, const kernels::KeyValueCache& cache, const kernels::AttentionOptions& options) override;
  Tensor rms_norm(const Tensor& x_tc, const Tensor& gate_tc, const Tensor& weight_c, double eps) override;
  Tensor sum_over_tensor_ranks(const Tensor& x_td) override { return x_td; }
  Tensor sum_statistics(const Tensor& x) override { return x; }
};

}  // namespace longhaul::model
