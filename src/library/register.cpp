// The operators under torch.ops.longhaul, for Python users with the same LibTorch:
//
//   torch.ops.load_library("build/release/liblonghaul_ops.so")      # the path: longhaul bench --ops-library
//   o, state = torch.ops.longhaul.linear_recurrence(q, k, v, log_decay, None, cu_seqlens, 1.0)
//
// CPU tensors go through the same functions as the trainer, gradients included; meta tensors give shapes without computing.
#include <torch/library.h>

#include "kernels/attention/op.h"
#include "kernels/linear_cross_entropy/op.h"
#include "kernels/linear_recurrence/op.h"

namespace longhaul::kernels {
namespace {

using OptionalTensor = std::optional<Tensor>;

Tensor defined_or_none(const OptionalTensor& tensor) { return tensor ? *tensor : Tensor(); }

std::tuple<Tensor, Tensor> recurrence(const Tensor& q, const Tensor& k, const Tensor& v, const OptionalTensor& log_decay,
                                      const OptionalTensor& initial_state, const OptionalTensor& cu_seqlens, double scale, bool reverse) {
  auto result = linear_recurrence(q, k, v, defined_or_none(log_decay), defined_or_none(initial_state), defined_or_none(cu_seqlens),
                                  {.scale = scale, .reverse = reverse});
  return {std::move(result.o_thd), std::move(result.final_state_nhkv)};
}

std::tuple<Tensor, Tensor> softmax_attention(const Tensor& q, const Tensor& k, const Tensor& v, const OptionalTensor& cu_seqlens,
                                             int64_t window, double scale) {
  auto result = attention(q, k, v, defined_or_none(cu_seqlens), Tensor(), {.scale = scale, .window = window});
  return {std::move(result.o_thd), std::move(result.logsumexp_th)};
}

ScalarType wide(const Tensor& tensor) { return tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

int64_t documents_of(const OptionalTensor& cu_seqlens) { return cu_seqlens ? cu_seqlens->size(0) - 1 : 1; }

std::tuple<Tensor, Tensor> recurrence_shapes(const Tensor& q, const Tensor&, const Tensor& v, const OptionalTensor&, const OptionalTensor&,
                                             const OptionalTensor& cu_seqlens, double, bool) {
  return {at::empty({q.size(0), q.size(1), v.size(2)}, v.options()),
          at::empty({documents_of(cu_seqlens), q.size(1), q.size(2), v.size(2)}, v.options().dtype(wide(v)))};
}

std::tuple<Tensor, Tensor> attention_shapes(const Tensor& q, const Tensor&, const Tensor& v, const OptionalTensor&, int64_t, double) {
  return {at::empty({q.size(0), q.size(1), v.size(2)}, v.options()), at::empty({q.size(0), q.size(1)}, q.options().dtype(wide(q)))};
}

Tensor cross_entropy_shape(const Tensor& hidden, const Tensor&, const Tensor&, double) {
  return at::empty({}, hidden.options().dtype(wide(hidden)));
}

}  // namespace

TORCH_LIBRARY(longhaul, library) {
  library.def(
      "linear_recurrence(Tensor q, Tensor k, Tensor v, Tensor? log_decay, Tensor? initial_state, Tensor? cu_seqlens, float scale, "
      "bool reverse=False) -> (Tensor o, Tensor final_state)");
  library.def("attention(Tensor q, Tensor k, Tensor v, Tensor? cu_seqlens, int window, float scale) -> (Tensor o, Tensor logsumexp)");
  library.def("linear_cross_entropy(Tensor hidden, Tensor weight, Tensor labels, float z_loss) -> Tensor");
}

// Differentiable by themselves: each is an autograd function of ours under the hood.
TORCH_LIBRARY_IMPL(longhaul, CompositeImplicitAutograd, library) {
  library.impl("linear_recurrence", recurrence);
  library.impl("attention", softmax_attention);
  library.impl("linear_cross_entropy", linear_cross_entropy);
}

TORCH_LIBRARY_IMPL(longhaul, Meta, library) {
  library.impl("linear_recurrence", recurrence_shapes);
  library.impl("attention", attention_shapes);
  library.impl("linear_cross_entropy", cross_entropy_shape);
}

}  // namespace longhaul::kernels
