// Visibility: the keys that a query of attention sees, as integers. One rule covers causal attention, a
// window, a prefix that all may read, bidirectional and cross attention, and every pair of a range of
// queries and a range of keys of one of these.
//
// Query i of a document is at position p = i + shift among the document's keys. It sees key j if j <
// prefix, or if
//
//   causal       p − window < j ≤ p
//   not causal   p − window < j < p + window          window 0: no limit on either side
//
// Rows of no document see no key and are seen by no query. Plain values: any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace longhaul::kernels {

struct AttentionDocument {
  int64_t q, queries;              // its rows of the queries, [q, q + queries)
  int64_t k, keys;                 // its rows of the keys
  int64_t shift = keys - queries;  // the last query stands at the last key
  int64_t prefix = 0;              // keys that all queries see
};

struct TokenRange {
  int64_t first, last;  // [first, last)
  bool empty() const { return first >= last; }
};

struct Visibility {
  // their rows of queries, and those of keys, ascending and disjoint
  std::vector<AttentionDocument> documents;
  bool causal = true;
  int64_t window = 0;

  // Keys of the document that its query i sees by its position, and all of them with the prefix: the least
  // range that holds them. Both ends grow with i. Empty ranges lie anywhere in [0, keys].
  TokenRange near(const AttentionDocument& document, int64_t i) const;
  TokenRange seen(const AttentionDocument& document, int64_t i) const;
  // Queries of the document that see some of its keys [keys.first, keys.last), in the same sense. Both ends
  // grow with the range, where it is not empty: {0, 0}.
  TokenRange seeing(const AttentionDocument& document, TokenRange keys) const;

  // The keys of [keys.first, keys.last) that queries [queries.first, queries.last) see; rows are counted
  // from the beginnings of the two ranges.
  Visibility pair(TokenRange queries, TokenRange keys) const;
  // What the rows of_queries, of_queries + stride, … see of the keys of_keys, of_keys + stride, …, both
  // counted by themselves. For documents whose queries and keys are the same rows, and no window where
  // attention is not causal. Documents of which either side has no row are left out.
  Visibility striped(int64_t stride, int64_t of_queries, int64_t of_keys) const;
  // With documents of queries without keys, and of keys without queries, for the rows that are in none: every
  // row is in one.
  Visibility covering(int64_t queries, int64_t keys) const;

  // Documents side by side, the last query of each at its last key.
  static Visibility packed(std::span<const int64_t> offsets, std::span<const int64_t> key_offsets);
};

}  // namespace longhaul::kernels
