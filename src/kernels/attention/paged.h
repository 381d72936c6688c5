// Attention over a cache of keys and values that grows by page (decoding): appending copies the new tokens only, never what is there.
//
// A page holds kPageTokens tokens of all kv heads as [heads, tokens, channels], so that the keys of one head lie together. The newest
// tokens' queries see all earlier keys and their own, as in `attention` with key documents. No gradient. A cache is one sequence; queries
// of several are packed, each with its cache.
#pragma once

#include <span>
#include <vector>

#include "kernels/attention/op.h"

namespace longhaul::kernels {

class KeyValueCache {
 public:
  static constexpr int64_t kPageTokens = 256;

  // k_shd [S,Hk,D], v_shd [S,Hk,Dv]: the next S tokens. Shapes and dtype as the first time.
  void append(const Tensor& k_shd, const Tensor& v_shd);
  int64_t tokens() const { return tokens_; }
  int64_t bytes() const;                                              // of all pages
  const std::vector<Tensor>& key_pages() const { return keys_; }      // each [Hk, kPageTokens, D]; beyond tokens() unset
  const std::vector<Tensor>& value_pages() const { return values_; }  // each [Hk, kPageTokens, Dv]
  Tensor keys_shd() const { return gathered(keys_); }                 // copies of all tokens, for the implementations that know no pages
  Tensor values_shd() const { return gathered(values_); }

 private:
  Tensor gathered(const std::vector<Tensor>& pages) const;
  int64_t tokens_ = 0;
  std::vector<Tensor> keys_, values_;
};

// q_thd [T,H,D] of the newest tokens, which the caches hold already; offsets int64 [N+1]: whose queries, one cache each, or undefined (one).
// Implementations, in the order they are asked: cuda (bf16 on a GPU, one new token a sequence) and cpu, which read the pages; gathered,
// which copies them and calls attention.
AttentionResult attention_paged(const Tensor& q_thd, const Tensor& offsets, std::span<const KeyValueCache* const> caches,
                                const AttentionOptions& options);

}  // namespace longhaul::kernels
