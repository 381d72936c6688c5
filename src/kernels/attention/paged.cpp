#include "kernels/attention/paged.h"

#include <fmt/format.h>

#include "kernels/attention/cuda_call.h"
#include "kernels/attention/problem.h"
#include "kernels/documents.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels {
namespace {

constexpr const char* kPagedOp = "attention_paged";

void write_pages(std::vector<Tensor>& pages, int64_t tokens, const Tensor& x_shd) {
  constexpr int64_t kPage = KeyValueCache::kPageTokens;
  for (int64_t done = 0; done < x_shd.size(0);) {
    const int64_t at = (tokens + done) % kPage, count = std::min(kPage - at, x_shd.size(0) - done);
    if (at == 0) pages.push_back(at::empty({x_shd.size(1), kPage, x_shd.size(2)}, x_shd.options()));
    pages.back().narrow(1, at, count).copy_(x_shd.narrow(0, done, count).transpose(0, 1));
    done += count;
  }
}

void check(const Tensor& q, std::span<const KeyValueCache* const> caches, const std::vector<int64_t>& offsets) {
  if (q.dim() != 3 || !at::isFloatingType(q.scalar_type()))
    refuse_argument(kPagedOp, "q", "[tokens, heads, channels], floating point", shape_text(q));
  if (q.requires_grad() && at::GradMode::is_enabled())
    refuse_argument(kPagedOp, "q", "no gradient wanted: a cache keeps none", "a tensor that requires one");
  if (caches.size() + 1 != offsets.size()) {
    refuse_argument(kPagedOp, "caches", fmt::format("{}, one for each document of q", offsets.size() - 1), std::to_string(caches.size()));
  }
  for (size_t n = 0; n < caches.size(); ++n) {
    const KeyValueCache& cache = *caches[n];
    const int64_t queries = offsets[n + 1] - offsets[n];
    if (cache.tokens() < std::max<int64_t>(queries, 1)) {
      refuse_argument(kPagedOp, "caches", fmt::format("at least the {} tokens of document {} of q, and one", queries, n),
                      fmt::format("{} tokens", cache.tokens()));
    }
    const Tensor& page = cache.key_pages().front();
    if (page.size(2) != q.size(2) || q.size(1) % page.size(0) != 0 || page.scalar_type() != q.scalar_type()) {
      refuse_argument(kPagedOp, "caches",
                      fmt::format("keys of a divisor of {} heads with {} channels, {}", q.size(1), q.size(2), name_of(q.scalar_type())),
                      shape_text(page));
    }
    const Tensor &keys = caches[0]->key_pages().front(), &values = caches[0]->value_pages().front();
    if (page.size(0) != keys.size(0) || cache.value_pages().front().size(2) != values.size(2)) {
      refuse_argument(kPagedOp, "caches", "equal head counts and channels in all of them", shape_text(page));
    }
  }
}

Refusal refuse_gpu(const PagedProblem& problem) {
  const Refusal refusal = refuse_cuda(problem.q_thd);
  return refusal.empty() ? cuda_calls<AttentionCuda>().refuse_paged(problem) : refusal;
}

}  // namespace

void KeyValueCache::append(const Tensor& k, const Tensor& v) {
  if (k.dim() != 3) refuse_argument(kPagedOp, "k", "[tokens, heads, channels]", shape_text(k));
  if (v.dim() != 3 || v.size(0) != k.size(0) || v.size(1) != k.size(1) || v.scalar_type() != k.scalar_type()) {
    refuse_argument(kPagedOp, "v", fmt::format("[{}, {}, channels] {}", k.size(0), k.size(1), name_of(k.scalar_type())), shape_text(v));
  }
  if (!keys_.empty()) {
    const auto same = [](const Tensor& page, const Tensor& x) {
      return page.size(0) == x.size(1) && page.size(2) == x.size(2) && page.scalar_type() == x.scalar_type();
    };
    if (!same(keys_.front(), k))
      refuse_argument(kPagedOp, "k", "heads, channels and dtype of the pages so far: " + shape_text(keys_.front()), shape_text(k));
    if (!same(values_.front(), v))
      refuse_argument(kPagedOp, "v", "heads, channels and dtype of the pages so far: " + shape_text(values_.front()), shape_text(v));
  }
  const at::NoGradGuard no_gradient;
  write_pages(keys_, tokens_, k);
  write_pages(values_, tokens_, v);
  tokens_ += k.size(0);
}

int64_t KeyValueCache::bytes() const {
  int64_t sum = 0;
  for (const auto* pages : {&keys_, &values_}) {
    for (const Tensor& page : *pages) sum += static_cast<int64_t>(page.nbytes());
  }
  return sum;
}

Tensor KeyValueCache::gathered(const std::vector<Tensor>& pages) const {
  if (pages.empty()) return {};
  return at::cat(pages, 1).narrow(1, 0, tokens_).transpose(0, 1).contiguous();
}

AttentionResult attention_paged(const Tensor& q, const Tensor& offsets, std::span<const KeyValueCache* const> caches,
                                const AttentionOptions& options) {
  PagedProblem problem{q, document_offsets(offsets, q.size(0), kPagedOp), caches, options};
  check(q, caches, problem.offsets);
  if (options.window < 0) refuse_argument(kPagedOp, "window", "0 (none) or more", std::to_string(options.window));
  static constexpr std::string_view kImplementations[] = {"cuda", "cpu", "gathered"};
  const size_t choice = Dispatcher(kPagedOp, kImplementations).choose([&](size_t i) {
    if (i == 2) return Refusal();
    return i == 0 ? refuse_gpu(problem) : refuse_attention_paged_cpu(problem);
  });
  if (choice == 0) return cuda_calls<AttentionCuda>().paged(problem);
  if (choice == 1) return attention_paged_cpu(problem);
  std::vector<Tensor> keys, values;
  std::vector<int64_t> key_offsets{0};
  for (const KeyValueCache* cache : caches) {
    key_offsets.push_back(key_offsets.back() + cache->tokens());
    keys.push_back(cache->keys_shd());
    values.push_back(cache->values_shd());
  }
  return attention(q, at::cat(keys), at::cat(values), to_tensor(problem.offsets), to_tensor(key_offsets), options);
}

}  // namespace longhaul::kernels
