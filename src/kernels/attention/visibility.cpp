#include "kernels/attention/visibility.h"

#include <algorithm>

#include "base/error.h"

namespace longhaul::kernels {
namespace {

// ⌊a / b⌋ for b > 0; C++ rounds to zero.
int64_t floor_of(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

// How many of the rows first, first + stride, … come before row `end`.
int64_t rows_before(int64_t end, int64_t first, int64_t stride) {
  return std::max<int64_t>(0, -floor_of(first - end, stride));
}

}  // namespace

TokenRange Visibility::near(const AttentionDocument& document, int64_t i) const {
  const int64_t p = i + document.shift, reach = causal ? 1 : window > 0 ? window : document.keys - p;
  return {window > 0 ? std::clamp<int64_t>(p - window + 1, 0, document.keys) : 0,
          std::clamp<int64_t>(p + reach, 0, document.keys)};
}

TokenRange Visibility::seen(const AttentionDocument& document, int64_t i) const {
  const TokenRange range = near(document, i);
  return document.prefix > 0 ? TokenRange{0, std::max(range.last, document.prefix)} : range;
}

TokenRange Visibility::seeing(const AttentionDocument& document, TokenRange keys) const {
  if (keys.empty()) return {0, 0};
  const int64_t before = causal ? 0 : window > 0 ? window - 1 : keys.first - document.shift;
  const int64_t first = keys.first < document.prefix
                            ? 0
                            : std::clamp<int64_t>(keys.first - document.shift - before, 0, document.queries);
  const bool limited = window > 0 && document.prefix == 0;
  const int64_t last =
      limited ? std::min(keys.last - 1 - document.shift + window, document.queries) : document.queries;
  return first < last ? TokenRange{first, last} : TokenRange{0, 0};
}

Visibility Visibility::pair(TokenRange queries, TokenRange keys) const {
  Visibility result{{}, causal, window};
  for (const AttentionDocument& document : documents) {
    const int64_t q = std::max(document.q, queries.first), k = std::max(document.k, keys.first);
    const int64_t q_end = std::min(document.q + document.queries, queries.last),
                  k_end = std::min(document.k + document.keys, keys.last);
    if (q >= q_end || k >= k_end) continue;
    const int64_t queries_before = q - document.q, keys_before = k - document.k;
    result.documents.push_back({.q = q - queries.first,
                                .queries = q_end - q,
                                .k = k - keys.first,
                                .keys = k_end - k,
                                .shift = document.shift + queries_before - keys_before,
                                .prefix = std::clamp<int64_t>(document.prefix - keys_before, 0, k_end - k)});
  }
  return result;
}

// Query row q + stride·i sees key row k + stride·j of the same rows if stride·j ≤ stride·i + (q − k), which
// is j ≤ i + ⌊(q − k) / stride⌋; a window ends likewise at ⌊(q − k − window) / stride⌋.
Visibility Visibility::striped(int64_t stride, int64_t of_queries, int64_t of_keys) const {
  LONGHAUL_ASSERT(causal || window == 0, "a window of {} on both sides", window);
  const int64_t between = of_queries - of_keys, ahead = floor_of(between, stride);
  Visibility result{{}, causal, window > 0 ? ahead - floor_of(between - window, stride) : 0};
  if (window > 0 && result.window == 0) return result;  // the window reaches no key of that stripe
  for (const AttentionDocument& document : documents) {
    LONGHAUL_ASSERT(document.q == document.k && document.shift == 0 && document.prefix == 0,
                    "queries {} and keys {} that are not the same rows", document.q, document.k);
    const int64_t q = rows_before(document.q, of_queries, stride),
                  k = rows_before(document.k, of_keys, stride);
    const AttentionDocument part{
        .q = q,
        .queries = rows_before(document.q + document.queries, of_queries, stride) - q,
        .k = k,
        .keys = rows_before(document.k + document.keys, of_keys, stride) - k,
        .shift = q - k + ahead};
    if (part.queries > 0 && part.keys > 0) result.documents.push_back(part);
  }
  return result;
}

Visibility Visibility::covering(int64_t queries, int64_t keys) const {
  Visibility result{{}, causal, window};
  int64_t q = 0, k = 0;
  const auto fill = [&](int64_t q_end, int64_t k_end) {
    if (q < q_end) result.documents.push_back({q, q_end - q, k, 0});
    if (k < k_end) result.documents.push_back({q_end, 0, k, k_end - k});
  };
  for (const AttentionDocument& document : documents) {
    fill(document.q, document.k);
    result.documents.push_back(document);
    q = document.q + document.queries;
    k = document.k + document.keys;
  }
  fill(queries, keys);
  return result;
}

Visibility Visibility::packed(std::span<const int64_t> offsets, std::span<const int64_t> key_offsets) {
  Visibility result;
  for (size_t n = 0; n + 1 < offsets.size(); ++n) {
    result.documents.push_back(
        {offsets[n], offsets[n + 1] - offsets[n], key_offsets[n], key_offsets[n + 1] - key_offsets[n]});
  }
  return result;
}

}  // namespace longhaul::kernels
