#include "model/parallel_ops.h"

#include "kernels/attention/op.h"
#include "kernels/attention/paged.h"
#include "kernels/linear_recurrence/op.h"
#include "kernels/norm/op.h"
#include "tensor/to_tensor.h"

namespace longhaul::model {

kernels::LinearRecurrenceResult LocalOps::linear_recurrence(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& log_decay,
                                                            const Tensor& initial_state, const layout::SequenceLayout& layout,
                                                            const kernels::LinearRecurrenceOptions& options) {
  return kernels::linear_recurrence(q, k, v, log_decay, initial_state, to_tensor(layout.document_offsets), options);
}

Tensor LocalOps::attention(const Tensor& q, const Tensor& k, const Tensor& v, const layout::SequenceLayout& layout,
                           const kernels::AttentionOptions& options) {
  return kernels::attention(q, k, v, to_tensor(layout.document_offsets), Tensor(), options).o_thd;
}

Tensor LocalOps::attention_cached(const Tensor& q, const kernels::KeyValueCache& cache, const kernels::AttentionOptions& options) {
  const kernels::KeyValueCache* const one = &cache;
  return kernels::attention_paged(q, Tensor(), std::span(&one, 1), options).o_thd;
}

Tensor LocalOps::rms_norm(const Tensor& x, const Tensor& gate, const Tensor& weight, double eps) {
  return kernels::rms_norm(x, weight, eps, gate);
}

}  // namespace longhaul::model
