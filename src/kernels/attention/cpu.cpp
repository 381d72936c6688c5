// From tensors to the plain pointers of cpu.h.
#include "kernels/attention/cpu.h"

#include "base/memory/memory_purpose.h"
#include "base/threads/parallel.h"
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
  sizes.visible = problem.visible;
  sizes.heads = problem.heads();
  sizes.key_heads = problem.k_shd.size(1);
  sizes.channels = problem.q_thd.size(2);
  sizes.values = problem.v_shd.size(2);
  sizes.scale = problem.scale;
}

template <class Element>
ResultRows<Element> result_rows(const Tensor& x_thc, bool wide) {
  return wide ? ResultRows<Element>{{}, view<float>(x_thc)} : ResultRows<Element>{view<Element>(x_thc)};
}

RowView<const float> values_of_rows(const Tensor& x_th) {
  return x_th.defined() ? RowView<const float>{x_th.const_data_ptr<float>(), x_th.stride(0), x_th.stride(1)}
                        : RowView<const float>{};
}

template <class Element>
void forward(const AttentionProblem& problem, const AttentionResult& result, bool wide) {
  AttentionForward<Element> call;
  set_sizes(call, problem);
  call.q = const_view<Element>(problem.q_thd);
  call.keys.k = const_view<Element>(problem.k_shd);
  call.keys.v = const_view<Element>(problem.v_shd);
  call.o = result_rows<Element>(result.o_thd, wide);
  call.logsumexp = {result.logsumexp_th.mutable_data_ptr<float>(), result.logsumexp_th.stride(0), 1};
  run_attention_forward(call);
}

template <class Element>
void backward(const AttentionProblem& problem, const Tensor& d_o, const AttentionOutside& outside,
              const AttentionGradients& into, bool add) {
  AttentionBackward<Element> call;
  set_sizes(call, problem);
  call.q = const_view<Element>(problem.q_thd);
  call.keys.k = const_view<Element>(problem.k_shd);
  call.keys.v = const_view<Element>(problem.v_shd);
  call.d_o = const_view<Element>(d_o);
  call.logsumexp = values_of_rows(outside.logsumexp_th);
  call.delta = values_of_rows(outside.delta_th);
  call.d_q = result_rows<Element>(into.q_thd, add);
  call.d_k = result_rows<Element>(into.k_shd, add);
  call.d_v = result_rows<Element>(into.v_shd, add);
  const MemoryPurposeScope scope(MemoryPurpose::kWorkspace);
  const Tensor workspace = at::empty({attention_backward_workspace(call, sizeof(Element), threads()).shared},
                                     outside.logsumexp_th.options().dtype(at::kByte));
  call.workspace = static_cast<float*>(workspace.mutable_data_ptr());
  run_attention_backward(call);
}

template <class Element>
void delta(const Tensor& o, const Tensor& d_o, const Tensor& d_logsumexp, const Tensor& out) {
  run_attention_delta<Element>({o.size(0),
                                o.size(1),
                                o.size(2),
                                const_view<Element>(o),
                                const_view<Element>(d_o),
                                values_of_rows(d_logsumexp),
                                {out.mutable_data_ptr<float>(), out.stride(0), out.stride(1)}});
}

template <class Element>
typename KeySource<Element>::NarrowPages narrow_pages(const PagedProblem& problem, size_t document) {
  const PagePool& pool = problem.cache.pool();
  typename KeySource<Element>::NarrowPages pages;
  for (const int64_t page : problem.pages(document)) {
    pages.k.push_back(pool.keys(page).const_data_ptr<int8_t>());
    pages.v.push_back(pool.values(page).const_data_ptr<int8_t>());
    pages.k_scales.push_back(pool.key_scales(page).const_data_ptr<float>());
    pages.v_scales.push_back(pool.value_scales(page).const_data_ptr<float>());
  }
  return pages;
}

template <class Element>
void paged(const PagedProblem& problem, const AttentionResult& result) {
  AttentionForward<Element> call;
  const PagePool& pool = problem.cache.pool();
  for (size_t n = 0; n < problem.documents(); ++n) {
    call.visible.documents.push_back(
        {problem.offsets[n], problem.offsets[n + 1] - problem.offsets[n], 0, problem.keys(n)});
    if (pool.sizes().int8) {
      call.keys.narrow.push_back(narrow_pages<Element>(problem, n));
      continue;
    }
    auto& pages = call.keys.pages.emplace_back();
    for (const int64_t page : problem.pages(n)) {
      pages.k.push_back(static_cast<const Element*>(pool.keys(page).const_data_ptr()));
      pages.v.push_back(static_cast<const Element*>(pool.values(page).const_data_ptr()));
    }
  }
  call.keys.page_tokens = PagePool::kTokens;
  call.keys.value_stride = pool.sizes().values_in_keys ? pool.sizes().key : pool.sizes().value;
  call.heads = problem.q_thd.size(1);
  call.key_heads = pool.sizes().heads;
  call.channels = problem.q_thd.size(2);
  call.values = result.o_thd.size(2);
  call.visible.window = problem.options.window;
  call.scale = problem.options.scale;
  call.q = const_view<Element>(problem.q_thd);
  call.o = result_rows<Element>(result.o_thd, false);
  call.logsumexp = {result.logsumexp_th.mutable_data_ptr<float>(), result.logsumexp_th.stride(0), 1};
  run_attention_forward(call);
}

Refusal refuse(const Tensor& q, double scale) {
  const ScalarType type = q.scalar_type();
  if (!q.device().is_cpu()) return "it runs on the CPU";
  if (type != at::kBFloat16 && type != at::kFloat) return "it takes bf16 and fp32";
  if (!rows_are_whole(q)) return "channels are not contiguous";
  if (!(scale > 0)) return "the scale is not positive";
  return "";
}

}  // namespace

Refusal refuse_attention_cpu(const AttentionProblem& problem) {
  if (!rows_are_whole(problem.k_shd) || !rows_are_whole(problem.v_shd)) return "channels are not contiguous";
  return refuse(problem.q_thd, problem.scale);
}

Refusal refuse_attention_paged_cpu(const PagedProblem& problem) {
  return refuse(problem.q_thd, problem.options.scale);
}

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

AttentionResult attention_forward_cpu(const AttentionProblem& problem, bool wide) {
  const Tensor &q = problem.q_thd, &v = problem.v_shd;
  const AttentionResult result{
      at::empty({q.size(0), q.size(1), v.size(2)}, v.options().dtype(wide ? at::kFloat : v.scalar_type())),
      at::empty({q.size(0), q.size(1)}, q.options().dtype(at::kFloat))};
  if (q.scalar_type() == at::kBFloat16)
    forward<uint16_t>(problem, result, wide);
  else
    forward<float>(problem, result, wide);
  return result;
}

void attention_backward_cpu(const AttentionProblem& problem, const AttentionOutside& outside,
                            const AttentionGradients& into, bool add) {
  const Tensor d_o = rows_are_whole(outside.d_o_thd) ? outside.d_o_thd : outside.d_o_thd.contiguous();
  if (problem.q_thd.scalar_type() == at::kBFloat16)
    backward<uint16_t>(problem, d_o, outside, into, add);
  else
    backward<float>(problem, d_o, outside, into, add);
}

Tensor attention_delta_cpu(const Tensor& o_thd, const Tensor& d_o_thd, const Tensor& d_logsumexp_th) {
  const auto whole = [](const Tensor& x) { return rows_are_whole(x) ? x : x.contiguous(); };
  const Tensor o = whole(o_thd), d_o = whole(d_o_thd),
               result = at::empty({o.size(0), o.size(1)}, o.options().dtype(at::kFloat));
  if (o.scalar_type() == at::kBFloat16)
    delta<uint16_t>(o, d_o, d_logsumexp_th, result);
  else
    delta<float>(o, d_o, d_logsumexp_th, result);
  return result;
}

}  // namespace longhaul::kernels
