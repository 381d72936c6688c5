// The operators under torch.ops.longhaul, for Python users with the same LibTorch:
//
//   torch.ops.load_library("build/release/liblonghaul_ops.so")      # the path: longhaul bench --ops-library
//   o, state = torch.ops.longhaul.linear_recurrence(q, k, v, log_decay, None, cu_seqlens, 1.0)
//
// Tensors go through the same functions as the trainer, gradients included; meta tensors give shapes without
// computing. traced.h has what torch.compile needs; optimizers.cpp has the steps of optimizers, which write
// into their arguments.
#include <ATen/EmptyTensor.h>
#include <torch/library.h>

#include "kernels/attention/op.h"
#include "kernels/linear_cross_entropy/op.h"
#include "kernels/linear_recurrence/op.h"
#include "torch_ops/traced.h"

namespace longhaul::kernels {
namespace {

using OptionalTensor = std::optional<Tensor>;

constexpr const char *kOperators[] = {"linear_recurrence", "attention", "linear_cross_entropy"},
                     *kBackward[] = {"_linear_recurrence_backward", "_attention_backward",
                                     "_linear_cross_entropy_backward"};

Tensor defined_or_none(const OptionalTensor& tensor) { return tensor ? *tensor : Tensor(); }

// The numbers in a meta tensor are unknown: any documents, as many as it says. Made past the dispatcher,
// which under FakeTensorMode gives no memory.
Tensor offsets_of(const OptionalTensor& cu_seqlens, const Tensor& q) {
  if (!cu_seqlens || !q.is_meta() || !cu_seqlens->is_meta() || q.dim() == 0)
    return defined_or_none(cu_seqlens);
  // refused there
  if (cu_seqlens->dim() != 1 || cu_seqlens->numel() < 2 || cu_seqlens->scalar_type() != at::kLong)
    return *cu_seqlens;
  Tensor offsets(at::detail::empty_cpu(cu_seqlens->sizes(), at::kLong));
  auto* const numbers = static_cast<int64_t*>(offsets.data_ptr());
  std::fill_n(numbers, offsets.numel(), 0);
  numbers[offsets.numel() - 1] = q.size(0);
  return offsets;
}

std::tuple<Tensor, Tensor> recurrence(const Tensor& q, const Tensor& k, const Tensor& v,
                                      const OptionalTensor& log_decay, const OptionalTensor& initial_state,
                                      const OptionalTensor& cu_seqlens, double scale, bool reverse) {
  auto result = linear_recurrence(q, k, v, defined_or_none(log_decay), defined_or_none(initial_state),
                                  offsets_of(cu_seqlens, q), {.scale = scale, .reverse = reverse});
  return {std::move(result.o_thd), std::move(result.final_state_nhkv)};
}

std::tuple<Tensor, Tensor> softmax_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                             const OptionalTensor& cu_seqlens, int64_t window, double scale) {
  auto result = attention(q, k, v, offsets_of(cu_seqlens, q), Tensor(), {.scale = scale, .window = window});
  return {std::move(result.o_thd), std::move(result.logsumexp_th)};
}

// Meta: the checks of the operator, and shapes; with sizes that are symbols, of which nothing can be asked,
// shapes alone.

bool symbolic(const Tensor& tensor) { return tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides(); }
bool symbolic(const OptionalTensor& tensor) { return tensor && symbolic(*tensor); }

ScalarType wide(const Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

std::tuple<Tensor, Tensor> recurrence_shapes(const Tensor& q, const Tensor& k, const Tensor& v,
                                             const OptionalTensor& log_decay,
                                             const OptionalTensor& initial_state,
                                             const OptionalTensor& cu_seqlens, double scale, bool reverse) {
  if (!symbolic(q) && !symbolic(k) && !symbolic(v) && !symbolic(log_decay) && !symbolic(initial_state) &&
      !symbolic(cu_seqlens))
    return recurrence(q, k, v, log_decay, initial_state, cu_seqlens, scale, reverse);
  const c10::SymInt documents = cu_seqlens ? cu_seqlens->sym_size(0) - 1 : c10::SymInt(1);
  return {
      at::empty_symint({q.sym_size(0), q.sym_size(1), v.sym_size(2)}, v.options()),
      at::empty_symint({documents, q.sym_size(1), q.sym_size(2), v.sym_size(2)}, v.options().dtype(wide(v)))};
}

std::tuple<Tensor, Tensor> attention_shapes(const Tensor& q, const Tensor& k, const Tensor& v,
                                            const OptionalTensor& cu_seqlens, int64_t window, double scale) {
  if (!symbolic(q) && !symbolic(k) && !symbolic(v) && !symbolic(cu_seqlens))
    return softmax_attention(q, k, v, cu_seqlens, window, scale);
  return {at::empty_symint({q.sym_size(0), q.sym_size(1), v.sym_size(2)}, v.options()),
          at::empty_symint({q.sym_size(0), q.sym_size(1)}, q.options().dtype(wide(q)))};
}

Tensor cross_entropy_shape(const Tensor& hidden, const Tensor& weight, const Tensor& labels, double z_loss) {
  if (!symbolic(hidden) && !symbolic(weight) && !symbolic(labels))
    return linear_cross_entropy(hidden, weight, labels, z_loss);
  return at::empty({}, hidden.options().dtype(wide(hidden)));
}

}  // namespace

TORCH_LIBRARY(longhaul, library) {
  library.def(
      "linear_recurrence(Tensor q, Tensor k, Tensor v, Tensor? log_decay, Tensor? initial_state, Tensor? "
      "cu_seqlens, float scale, "
      "bool reverse=False) -> (Tensor o, Tensor final_state)");
  library.def(
      "attention(Tensor q, Tensor k, Tensor v, Tensor? cu_seqlens, int window, float scale) -> (Tensor o, "
      "Tensor logsumexp)");
  library.def("linear_cross_entropy(Tensor hidden, Tensor weight, Tensor labels, float z_loss) -> Tensor");
  // Of traced calls: the gradients of the floating point tensors, in order.
  library.def(
      "_linear_recurrence_backward(Tensor q, Tensor k, Tensor v, Tensor? log_decay, Tensor? initial_state, "
      "Tensor? cu_seqlens, "
      "float scale, bool reverse, Tensor? d_o, Tensor? d_final_state) -> Tensor[]");
  library.def(
      "_attention_backward(Tensor q, Tensor k, Tensor v, Tensor? cu_seqlens, int window, float scale, "
      "Tensor? d_o, Tensor? d_logsumexp) "
      "-> Tensor[]");
  library.def(
      "_linear_cross_entropy_backward(Tensor hidden, Tensor weight, Tensor labels, float z_loss, Tensor? "
      "d_loss) -> Tensor[]");
}

TORCH_LIBRARY_IMPL(longhaul, Autograd, library) {
  for (const char* name : kOperators)
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&traced_or_plain>());
}

TORCH_LIBRARY_IMPL(longhaul, CompositeExplicitAutograd, library) {
  library.impl("linear_recurrence", recurrence);
  library.impl("attention", softmax_attention);
  library.impl("linear_cross_entropy", linear_cross_entropy);
  for (const char* name : kBackward)
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&traced_backward>());
}

TORCH_LIBRARY_IMPL(longhaul, Meta, library) {
  library.impl("linear_recurrence", recurrence_shapes);
  library.impl("attention", attention_shapes);
  library.impl("linear_cross_entropy", cross_entropy_shape);
  for (const char* name : kBackward)
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&traced_backward_shapes>());
}

}  // namespace longhaul::kernels
