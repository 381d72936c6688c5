#include "kernels/attention/paged/paged.h"

#include <fmt/format.h>

#include <cstring>

#include "base/error.h"
#include "kernels/attention/cuda_call.h"
#include "kernels/attention/paged/narrow_tokens.h"
#include "kernels/attention/problem.h"
#include "kernels/documents.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels {
namespace {

constexpr const char* kPagedOp = "attention_paged";

// Tokens [from, from + count) of x [tokens, heads, channels] to places `at` and following of a page [heads,
// tokens, channels].
void write_tokens(const Tensor& page, int64_t at, const Tensor& x, int64_t from, int64_t count) {
  if (!x.is_cpu() || x.stride(2) != 1) {
    page.narrow(1, at, count).copy_(x.narrow(0, from, count).transpose(0, 1));
    return;
  }
  const auto element = static_cast<int64_t>(x.element_size()), bytes = x.size(2) * element;
  const auto* const source = static_cast<const std::byte*>(x.const_data_ptr());
  auto* const target = static_cast<std::byte*>(page.mutable_data_ptr());
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t h = 0; h < x.size(1); ++h) {
      std::memcpy(target + (h * PagePool::kTokens + at + t) * bytes,
                  source + ((from + t) * x.stride(0) + h * x.stride(1)) * element,
                  static_cast<size_t>(bytes));
    }
  }
}

void check(const PagedProblem& problem) {
  const Tensor& q = problem.q_thd;
  const PageSizes& sizes = problem.cache.pool().sizes();
  if (q.dim() != 3 || !at::isFloatingType(q.scalar_type()))
    refuse_argument(kPagedOp, "q", "[tokens, heads, channels], floating point", shape_text(q));
  if (q.requires_grad() && at::GradMode::is_enabled())
    refuse_argument(kPagedOp, "q", "no gradient wanted: a cache keeps none", "a tensor that requires one");
  if (q.size(2) != sizes.key || q.size(1) % sizes.heads != 0 ||
      q.scalar_type() != c10::typeMetaToScalarType(sizes.options.dtype())) {
    refuse_argument(kPagedOp, "q",
                    fmt::format("[tokens, a multiple of {}, {}] {} as the cache", sizes.heads, sizes.key,
                                name_of(c10::typeMetaToScalarType(sizes.options.dtype()))),
                    shape_text(q));
  }
  if (problem.rows.size() + 1 != problem.offsets.size()) {
    refuse_argument(kPagedOp, "rows",
                    fmt::format("{}, one for each document of q", problem.offsets.size() - 1),
                    std::to_string(problem.rows.size()));
  }
  for (size_t n = 0; n < problem.rows.size(); ++n) {
    const int64_t queries = problem.offsets[n + 1] - problem.offsets[n];
    if (problem.rows[n] < 0 || problem.rows[n] >= problem.cache.sequences()) {
      refuse_argument(kPagedOp, "rows",
                      fmt::format("sequences 0 to {} of the cache", problem.cache.sequences() - 1),
                      std::to_string(problem.rows[n]));
    }
    if (problem.keys(n) < std::max<int64_t>(queries, 1)) {
      refuse_argument(kPagedOp, "cache",
                      fmt::format("at least the {} tokens of document {} of q, and one", queries, n),
                      fmt::format("{} tokens", problem.keys(n)));
    }
    // by any of its queries
    const int64_t unseen = problem.cache.tokens(problem.rows[n]) - queries + 1 - problem.options.window;
    const int64_t forgotten = problem.cache.forgotten(problem.rows[n]);
    if (forgotten > 0 && (problem.options.window <= 0 || unseen < forgotten)) {
      refuse_argument(
          kPagedOp, "window",
          fmt::format("one that does not reach the {} tokens that document {} forgot", forgotten, n),
          std::to_string(problem.options.window));
    }
  }
}

Refusal refuse_gpu(const PagedProblem& problem) {
  if (problem.cache.pool().sizes().int8) return "keys and values are in eight bits";
  const Refusal refusal = refuse_cuda(problem.q_thd);
  return refusal.empty() ? cuda_calls<AttentionCuda>().refuse_paged(problem) : refusal;
}

}  // namespace

void KeyValueCache::clear(int64_t sequence) {
  Sequence& cleared = sequences_.at(static_cast<size_t>(sequence));
  for (const int64_t page : cleared.pages) pool_.give_back(page);
  cleared = {};
}

void KeyValueCache::copy(int64_t from, int64_t to) {
  LONGHAUL_ASSERT(from != to, "sequence {} onto itself", from);
  clear(to);
  for (const int64_t page : of(from).pages) pool_.share(page);
  sequences_[static_cast<size_t>(to)] = of(from);
}

// The page that the sequence's next token goes to, and nobody else's.
int64_t KeyValueCache::page_to_write(Sequence& sequence) {
  const int64_t at = sequence.tokens % PagePool::kTokens;
  if (at == 0) return sequence.pages.emplace_back(pool_.take());
  int64_t& last = sequence.pages.back();
  if (!pool_.shared(last)) return last;
  const int64_t own = pool_.take();
  const std::vector<Tensor> to = pool_.contents(own), from = pool_.contents(last);
  for (size_t i = 0; i < to.size(); ++i) to[i].narrow(1, 0, at).copy_(from[i].narrow(1, 0, at));
  pool_.give_back(last);
  return last = own;
}

void KeyValueCache::append(std::span<const int64_t> rows, std::span<const int64_t> offsets, const Tensor& k,
                           const Tensor& v) {
  const PageSizes& sizes = pool_.sizes();
  const auto check_sizes = [&](const char* name, const Tensor& x, int64_t channels) {
    const ScalarType type = c10::typeMetaToScalarType(sizes.options.dtype());
    if (x.dim() == 3 && x.size(0) == k.size(0) && x.size(1) == sizes.heads && x.size(2) == channels &&
        x.scalar_type() == type)
      return;
    refuse_argument(kPagedOp, name,
                    fmt::format("[{}, {}, {}] {}", k.size(0), sizes.heads, channels, name_of(type)),
                    shape_text(x));
  };
  check_sizes("k", k, sizes.key);
  if (sizes.values_in_keys) {
    if (v.defined()) refuse_argument(kPagedOp, "v", "nothing: values are channels of keys", shape_text(v));
  } else {
    check_sizes("v", v, sizes.value);
  }
  LONGHAUL_ASSERT(rows.size() + 1 == offsets.size() && offsets.back() == k.size(0), "{} rows, {} offsets",
                  rows.size(), offsets.size());
  const at::NoGradGuard no_gradient;
  for (size_t n = 0; n < rows.size(); ++n) {
    Sequence& sequence = sequences_.at(static_cast<size_t>(rows[n]));
    for (int64_t token = offsets[n]; token < offsets[n + 1];) {
      const int64_t page = page_to_write(sequence), at = sequence.tokens % PagePool::kTokens;
      const int64_t count = std::min(PagePool::kTokens - at, offsets[n + 1] - token);
      if (sizes.int8) {
        write_narrow_tokens(pool_.keys(page), pool_.key_scales(page), at, k.narrow(0, token, count));
        write_narrow_tokens(pool_.values(page), pool_.value_scales(page), at, v.narrow(0, token, count));
      } else {
        write_tokens(pool_.keys(page), at, k, token, count);
        if (!sizes.values_in_keys) write_tokens(pool_.values(page), at, v, token, count);
      }
      sequence.tokens += count;
      token += count;
    }
  }
}

void KeyValueCache::forget(std::span<const int64_t> rows, int64_t window) {
  if (window <= 0) return;
  for (const int64_t row : rows) {
    Sequence& sequence = sequences_.at(static_cast<size_t>(row));
    const int64_t unseen = std::max<int64_t>(0, sequence.tokens + 1 - window),
                  left = (unseen - sequence.forgotten) / PagePool::kTokens;
    if (left <= 0) continue;
    for (int64_t i = 0; i < left; ++i) pool_.give_back(sequence.pages[static_cast<size_t>(i)]);
    sequence.pages.erase(sequence.pages.begin(), sequence.pages.begin() + left);
    sequence.forgotten += left * PagePool::kTokens;
  }
}

int64_t KeyValueCache::pages_to_append(int64_t sequence, int64_t tokens) const {
  constexpr int64_t kTokens = PagePool::kTokens;
  const Sequence& grown = of(sequence);
  const int64_t at = grown.tokens % kTokens;
  const int64_t fresh = (at + tokens + kTokens - 1) / kTokens - (at > 0 ? 1 : 0);
  return fresh + (at > 0 && tokens > 0 && pool_.shared(grown.pages.back()) ? 1 : 0);
}

KeyValueCache::Saved KeyValueCache::save(int64_t sequence) const {
  const Sequence& from = of(sequence);
  Saved saved{.tokens = from.tokens, .forgotten = from.forgotten};
  for (size_t i = 0; i < from.pages.size(); ++i) {
    const int64_t first = from.forgotten + static_cast<int64_t>(i) * PagePool::kTokens;
    const int64_t count = std::min(PagePool::kTokens, from.tokens - first);
    std::vector<Tensor>& page = saved.pages.emplace_back();
    for (const Tensor& all : pool_.contents(from.pages[i]))
      page.push_back(all.narrow(1, 0, count).clone(at::MemoryFormat::Contiguous));
  }
  return saved;
}

void KeyValueCache::restore(int64_t sequence, const Saved& saved) {
  clear(sequence);
  Sequence& to = sequences_.at(static_cast<size_t>(sequence));
  for (const std::vector<Tensor>& page : saved.pages) {
    const std::vector<Tensor> own = pool_.contents(to.pages.emplace_back(pool_.take()));
    for (size_t i = 0; i < page.size(); ++i) own[i].narrow(1, 0, page[i].size(1)).copy_(page[i]);
  }
  to.tokens = saved.tokens;
  to.forgotten = saved.forgotten;
}

Tensor KeyValueCache::gathered(int64_t sequence, const Tensor& (PagePool::*tokens_of)(int64_t) const,
                               const Tensor& (PagePool::*scales_of)(int64_t) const) const {
  if (pages(sequence).empty()) return {};
  std::vector<Tensor> all;
  for (const int64_t page : pages(sequence)) {
    const Tensor& kept = (pool_.*tokens_of)(page);
    all.push_back(!pool_.sizes().int8 ? kept
                                      : kept.to(at::kFloat)
                                            .mul((pool_.*scales_of)(page).unsqueeze(2))
                                            .to(pool_.sizes().options.dtype()));
  }
  const int64_t count = tokens(sequence) - forgotten(sequence);
  return at::cat(all, 1).narrow(1, 0, count).transpose(0, 1).contiguous();
}

Tensor KeyValueCache::keys_shd(int64_t sequence) const {
  return gathered(sequence, &PagePool::keys, &PagePool::key_scales);
}

Tensor KeyValueCache::values_shd(int64_t sequence) const {
  return gathered(sequence, &PagePool::values, &PagePool::value_scales);
}

AttentionResult attention_paged(const Tensor& q, const Tensor& offsets, const KeyValueCache& cache,
                                std::span<const int64_t> rows, const AttentionOptions& options) {
  const PagedProblem problem{q, document_offsets(offsets, q.size(0), kPagedOp), cache, rows, options};
  check(problem);
  if (!options.causal)
    refuse_argument(kPagedOp, "causal", "true: what is not written yet cannot be seen", "false");
  if (options.window < 0)
    refuse_argument(kPagedOp, "window", "0 (none) or more", std::to_string(options.window));
  static constexpr std::string_view kImplementations[] = {"cuda", "cpu", "gathered"};
  const size_t choice = Dispatcher(kPagedOp, kImplementations).choose([&](size_t i) {
    if (i == 2) return Refusal();
    return i == 0 ? refuse_gpu(problem) : refuse_attention_paged_cpu(problem);
  });
  if (choice == 0) return cuda_calls<AttentionCuda>().paged(problem);
  if (choice == 1) return attention_paged_cpu(problem);
  std::vector<Tensor> keys, values;
  std::vector<int64_t> key_offsets{0};
  for (const int64_t row : rows) {
    key_offsets.push_back(key_offsets.back() + cache.tokens(row) - cache.forgotten(row));
    keys.push_back(cache.keys_shd(row));
    values.push_back(cache.values_shd(row));
  }
  return attention(q, at::cat(keys), at::cat(values), to_tensor(problem.offsets), to_tensor(key_offsets),
                   options);
}

}  // namespace longhaul::kernels
