// From tensors to the plain pointers of cpu.h.
#include "kernels/attention/cpu.h"

#include "base/memory_purpose.h"
#include "base/parallel.h"
#include "kernels/attention/problem.h"
#include "kernels/attention/workspace.h"

namespace longhaul::kernels {
namespace {

template <class Element>
Element* data_of(const Tensor& tensor) {
  return static_cast<Element*>(tensor.data_ptr());
}

template <class Element>
RowView<Element> view(const Tensor& x_thc) {
  return {data_of<Element>(x_thc), x_thc.stride(0), x_thc.stride(1)};
}

template <class Element>
RowView<const Element> const_view(const Tensor& x_thc) {
  return {static_cast<const Element*>(x_thc.const_data_ptr()), x_thc.stride(0), x_thc.stride(1)};
}

bool rows_are_whole(const Tensor& x_thc) { return x_thc.size(2) <= 1 || x_thc.stride(2) == 1; }

void set_sizes(AttentionSizes& sizes, const AttentionProblem& problem) {
  for (size_t n = 0; n + 1 < problem.offsets.size(); ++n) {
    sizes.documents.push_back({problem.offsets[n], problem.offsets[n + 1] - problem.offsets[n], problem.key_offsets[n],
                               problem.key_offsets[n + 1] - problem.key_offsets[n]});
  }
  sizes.heads = problem.heads();
  sizes.key_heads = problem.k_shd.size(1);
  sizes.channels = problem.q_thd.size(2);
  sizes.values = problem.v_shd.size(2);
  sizes.window = problem.options.window;
  sizes.scale = problem.options.scale;
}

template <class Element>
void forward(const AttentionProblem& problem, const AttentionResult& result) {
  AttentionForward<Element> call;
  set_sizes(call, problem);
  call.q = const_view<Element>(problem.q_thd);
  call.keys.k = const_view<Element>(problem.k_shd);
  call.keys.v = const_view<Element>(problem.v_shd);
  call.o = view<Element>(result.o_thd);
  call.logsumexp = {result.logsumexp_th.mutable_data_ptr<float>(), result.logsumexp_th.stride(0), 1};
  run_attention_forward(call);
}

template <class Element>
void backward(const AttentionProblem& problem, const AttentionResult& result, const Tensor& d_o, const Tensor& d_logsumexp,
              const AttentionGradients& gradients) {
  AttentionBackward<Element> call;
  set_sizes(call, problem);
  call.q = const_view<Element>(problem.q_thd);
  call.keys.k = const_view<Element>(problem.k_shd);
  call.keys.v = const_view<Element>(problem.v_shd);
  call.o = const_view<Element>(result.o_thd);
  call.d_o = const_view<Element>(d_o);
  call.logsumexp = {result.logsumexp_th.const_data_ptr<float>(), result.logsumexp_th.stride(0), 1};
  if (d_logsumexp.defined()) call.d_logsumexp = {d_logsumexp.const_data_ptr<float>(), d_logsumexp.stride(0), d_logsumexp.stride(1)};
  call.d_q = view<Element>(gradients.q_thd);
  call.d_k = view<Element>(gradients.k_shd);
  call.d_v = view<Element>(gradients.v_shd);
  const MemoryPurposeScope scope(MemoryPurpose::kWorkspace);
  const Tensor workspace =
      at::empty({attention_backward_workspace(call, sizeof(Element), threads()).shared}, result.logsumexp_th.options().dtype(at::kByte));
  call.workspace = static_cast<float*>(workspace.mutable_data_ptr());
  run_attention_backward(call);
}

template <class Element>
void paged(const PagedProblem& problem, const AttentionResult& result) {
  AttentionForward<Element> call;
  const PagePool& pool = problem.cache.pool();
  for (size_t n = 0; n < problem.documents(); ++n) {
    call.documents.push_back({problem.offsets[n], problem.offsets[n + 1] - problem.offsets[n], 0, problem.keys(n)});
    auto& pages = call.keys.pages.emplace_back();
    for (const int64_t page : problem.pages(n)) {
      pages.k.push_back(static_cast<const Element*>(pool.keys(page).const_data_ptr()));
      pages.v.push_back(static_cast<const Element*>(pool.values(page).const_data_ptr()));
    }
  }
  call.keys.page_tokens = PagePool::kTokens;
  call.heads = problem.q_thd.size(1);
  call.key_heads = pool.sizes().heads;
  call.channels = problem.q_thd.size(2);
  call.values = result.o_thd.size(2);
  call.window = problem.options.window;
  call.scale = problem.options.scale;
  call.q = const_view<Element>(problem.q_thd);
  call.o = view<Element>(result.o_thd);
  call.logsumexp = {result.logsumexp_th.mutable_data_ptr<float>(), result.logsumexp_th.stride(0), 1};
  run_attention_forward(call);
}

Refusal refuse(const Tensor& q, const AttentionOptions& options) {
  const ScalarType type = q.scalar_type();
  if (!q.device().is_cpu()) return "it runs on the CPU";
  if (type != at::kBFloat16 && type != at::kFloat) return "it takes bf16 and fp32";
  if (!rows_are_whole(q)) return "channels are not contiguous";
  if (!(options.scale > 0)) return "the scale is not positive";
  return "";
}

}  // namespace

Refusal refuse_attention_cpu(const AttentionProblem& problem) {
  if (!rows_are_whole(problem.k_shd) || !rows_are_whole(problem.v_shd)) return "channels are not contiguous";
  return refuse(problem.q_thd, problem.options);
}

Refusal refuse_attention_paged_cpu(const PagedProblem& problem) { return refuse(problem.q_thd, problem.options); }

AttentionResult attention_paged_cpu(const PagedProblem& problem) {
  const Tensor& q = problem.q_thd;
  const int64_t values = problem.cache.pool().sizes().value;
  const AttentionResult result{at::empty({q.size(0), q.size(1), values}, q.options()),
                               at::empty({q.size(0), q.size(1)}, q.options().dtype(at::kFloat))};
  if (q.scalar_type() == at::kBFloat16)
    paged<uint16_t>(problem, result);
  else
    paged<float>(problem, result);
  return result;
}

AttentionResult attention_forward_cpu(const AttentionProblem& problem) {
  const Tensor &q = problem.q_thd, &v = problem.v_shd;
  const AttentionResult result{at::empty({q.size(0), q.size(1), v.size(2)}, v.options()),
                               at::empty({q.size(0), q.size(1)}, q.options().dtype(at::kFloat))};
  if (q.scalar_type() == at::kBFloat16)
    forward<uint16_t>(problem, result);
  else
    forward<float>(problem, result);
  return result;
}

AttentionGradients attention_backward_cpu(const AttentionProblem& problem, const AttentionResult& result, const Tensor& d_o,
                                          const Tensor& d_logsumexp) {
  const Tensor &q = problem.q_thd, &k = problem.k_shd, &v = problem.v_shd;
  const AttentionGradients gradients{at::empty(q.sizes(), q.options()), at::empty(k.sizes(), k.options()),
                                     at::empty(v.sizes(), v.options())};
  const Tensor d_o_rows = rows_are_whole(d_o) ? d_o : d_o.contiguous();
  if (q.scalar_type() == at::kBFloat16)
    backward<uint16_t>(problem, result, d_o_rows, d_logsumexp, gradients);
  else
    backward<float>(problem, result, d_o_rows, d_logsumexp, gradients);
  return gradients;
}

}  // namespace longhaul::kernels
