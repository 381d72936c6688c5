#include "kernels/attention/cuda_call.h"

#include <algorithm>
#include <limits>

#include "kernels/attention/cuda.h"
#include "kernels/cuda/tensors.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kMostChannels = 256;

Refusal refuse(int64_t keys, int64_t values, int64_t window) {
  static_assert(kMostChannels == 256);
  if (std::min(keys, values) < 1 || std::max(keys, values) > kMostChannels)
    return "it takes heads of 1 to 256 channels";
  if (window > std::numeric_limits<int32_t>::max()) return "the window does not fit 32 bits";
  return "";
}
Refusal refuse(const AttentionProblem& problem) {
  const auto plain = [](const AttentionDocument& document) {
    return document.prefix == 0 && document.shift == document.keys - document.queries;
  };
  const Visibility& visible = problem.visible;
  if (!visible.causal || !std::all_of(visible.documents.begin(), visible.documents.end(), plain))
    return "it takes causal attention whose last query sees the last key";
  return refuse(problem.q_thd.size(2), problem.v_shd.size(2), visible.window);
}

cuda::Attention call_of(const AttentionProblem& problem, const Tensor& q, const Tensor& k, const Tensor& v) {
  return {.tokens = q.size(0),
          .key_tokens = k.size(0),
          .heads = static_cast<int>(q.size(1)),
          .key_heads = static_cast<int>(k.size(1)),
          .keys = static_cast<int>(q.size(2)),
          .values = static_cast<int>(v.size(2)),
          .window = static_cast<int>(problem.visible.window),
          .scale = static_cast<float>(problem.scale),
          .q = cuda::bf16(q),
          .k = cuda::bf16(k),
          .v = cuda::bf16(v)};
}

// A problem as the kernels take it, and the tensors it points into.
struct Operands {
  explicit Operands(const AttentionProblem& problem)
      : q(problem.q_thd.contiguous()),
        k(problem.k_shd.contiguous()),
        v(problem.v_shd.contiguous()),
        call(call_of(problem, q, k, v)) {}
  Tensor q, k, v;
  cuda::Attention call;
};

using Tiles = cuda::Table<cuda::AttentionTile>;
cuda::AttentionTiles pointers(const Tiles& tiles) { return {tiles.data(), static_cast<int>(tiles.size)}; }

struct Boundaries {
  explicit Boundaries(const Visibility& visible) {
    for (const AttentionDocument& document : visible.documents) {
      queries.push_back(document.q + document.queries);
      keys.push_back(document.k + document.keys);
    }
  }
  std::vector<int64_t> queries{0}, keys{0};
};
Tiles query_tiles(const AttentionProblem& problem, int rows) {
  const Boundaries at(problem.visible);
  return {cuda::attention_tiles(at.queries, at.keys, rows, false), problem.q_thd};
}

AttentionResult forward(const AttentionProblem& problem) {
  const cuda::OnDevice device(problem.q_thd);
  const Operands in(problem);
  const AttentionResult result{
      at::empty({in.call.tokens, in.call.heads, in.call.values}, in.v.options().requires_grad(false)),
      cuda::fp32_like(in.q, {in.call.tokens, in.call.heads})};
  const Tiles tiles = query_tiles(problem, cuda::query_rows(cuda::padded_head(in.call.keys, in.call.values)));
  cuda::attention_forward(in.call, pointers(tiles), cuda::bf16_out(result.o_thd),
                          cuda::fp32_out(result.logsumexp_th), device.stream());
  return result;
}

Tensor delta(const Tensor& o_thd, const Tensor& d_o_thd, const Tensor& d_logsumexp_th) {
  const cuda::OnDevice device(o_thd);
  const Tensor o = o_thd.contiguous(), d_o = d_o_thd.contiguous(),
               d_logsumexp = cuda::contiguous(d_logsumexp_th);
  const Tensor result = cuda::fp32_like(o, {o.size(0), o.size(1)});
  cuda::attention_delta(cuda::bf16(o), cuda::bf16(d_o), cuda::fp32(d_logsumexp), cuda::fp32_out(result),
                        o.size(0) * o.size(1), static_cast<int>(o.size(2)), device.stream());
  return result;
}

void backward(const AttentionProblem& problem, const AttentionOutside& outside,
              const AttentionGradients& into) {
  const cuda::OnDevice device(problem.q_thd);
  const Operands in(problem);
  const Tensor logsumexp = outside.logsumexp_th.contiguous(), delta = outside.delta_th.contiguous(),
               d_o = outside.d_o_thd.contiguous();
  const Tiles queries = query_tiles(problem, cuda::kBackwardRows);
  const Boundaries at(problem.visible);
  const Tiles keys(cuda::attention_tiles(at.keys, at.queries, cuda::kKeyRows, true), in.q);
  cuda::attention_backward(in.call, pointers(queries), pointers(keys),
                           {.logsumexp = cuda::fp32(logsumexp),
                            .delta = cuda::fp32(delta),
                            .d_o = cuda::bf16(d_o),
                            .d_q = cuda::bf16_out(into.q_thd),
                            .d_k = cuda::bf16_out(into.k_shd),
                            .d_v = cuda::bf16_out(into.v_shd)},
                           device.stream());
}

Refusal refuse_paged(const PagedProblem& problem) {
  for (size_t n = 0; n + 1 < problem.offsets.size(); ++n) {
    if (problem.offsets[n + 1] - problem.offsets[n] != 1) return "it takes one new token a sequence";
    if (problem.keys(n) > std::numeric_limits<int32_t>::max()) return "a sequence does not fit 32 bits";
  }
  if (problem.rows.empty()) return "there is no sequence";
  if (problem.cache.pool().sizes().values_in_keys) return "values are channels of keys";
  return refuse(problem.q_thd.size(2), problem.cache.pool().sizes().value, problem.options.window);
}

// The addresses of all pages, row by row, unused places null. They change when a page is added, not with
// every token.
std::vector<const void*> page_table(const PagedProblem& problem,
                                    const Tensor& (PagePool::*tensor_of)(int64_t) const, size_t width) {
  std::vector<const void*> table(problem.documents() * width, nullptr);
  for (size_t n = 0; n < problem.documents(); ++n) {
    const std::vector<int64_t>& pages = problem.pages(n);
    std::transform(pages.begin(), pages.end(), table.begin() + static_cast<std::ptrdiff_t>(n * width),
                   [&](int64_t page) { return (problem.cache.pool().*tensor_of)(page).const_data_ptr(); });
  }
  return table;
}

AttentionResult paged(const PagedProblem& problem) {
  static_assert(PagePool::kTokens % cuda::kDecodeKeys == 0);
  const cuda::OnDevice device(problem.q_thd);
  const Tensor q = problem.q_thd.contiguous();
  std::vector<int32_t> lengths;
  size_t width = 0;
  for (size_t n = 0; n < problem.documents(); ++n) {
    lengths.push_back(static_cast<int32_t>(problem.keys(n)));
    width = std::max(width, problem.pages(n).size());
  }
  const PageSizes& sizes = problem.cache.pool().sizes();
  const cuda::Table<const void*> k_pages(page_table(problem, &PagePool::keys, width), q),
      v_pages(page_table(problem, &PagePool::values, width), q);
  const cuda::Table<int32_t> lengths_table(lengths, q);
  const cuda::AttentionDecode call{.sequences = static_cast<int>(problem.documents()),
                                   .heads = static_cast<int>(q.size(1)),
                                   .key_heads = static_cast<int>(sizes.heads),
                                   .keys = static_cast<int>(q.size(2)),
                                   .values = static_cast<int>(sizes.value),
                                   .window = static_cast<int>(problem.options.window),
                                   .page = static_cast<int>(PagePool::kTokens),
                                   .table_width = static_cast<int>(width),
                                   .longest = *std::max_element(lengths.begin(), lengths.end()),
                                   .scale = static_cast<float>(problem.options.scale),
                                   .q = cuda::bf16(q),
                                   .k_pages = reinterpret_cast<const cuda::Bf16* const*>(k_pages.data()),
                                   .v_pages = reinterpret_cast<const cuda::Bf16* const*>(v_pages.data()),
                                   .lengths = lengths_table.data()};
  const AttentionResult result{
      at::empty({call.sequences, call.heads, call.values}, q.options().requires_grad(false)),
      cuda::fp32_like(q, {call.sequences, call.heads})};
  const Tensor workspace = cuda::workspace(cuda::decode_workspace_bytes(call), q);
  cuda::attention_decode(call, cuda::bf16_out(result.o_thd), cuda::fp32_out(result.logsumexp_th),
                         workspace.mutable_data_ptr(), device.stream());
  return result;
}

const CudaCalls<AttentionCuda> registered({.refuse = refuse,
                                           .forward = forward,
                                           .delta = delta,
                                           .backward = backward,
                                           .refuse_paged = refuse_paged,
                                           .paged = paged});

}  // namespace
}  // namespace longhaul::kernels
