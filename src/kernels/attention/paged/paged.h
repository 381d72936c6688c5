// Attention over a cache of keys and values that grows by pages (decoding): appending copies only the new
// tokens, never earlier ones.
//
// The cache holds many sequences; each has a table of pages of one pool. A copy of a sequence shares its
// pages. Before a sequence writes into a page that others use too (this can only be the last, unfinished
// one), it gets a copy of that page. The queries of the newest tokens see all earlier keys and their own,
// as in `attention` with key documents. Pages that a window has passed are given back. No gradient. Not
// thread-safe.
#pragma once

#include <span>
#include <vector>

#include "kernels/attention/op.h"
#include "kernels/attention/paged/page_pool.h"

namespace longhaul::kernels {

class KeyValueCache {
 public:
  explicit KeyValueCache(const PageSizes& sizes) : pool_(sizes) {}

  // Sequences are rows 0, 1, …; new ones are empty.
  void grow(int64_t sequences) { sequences_.resize(static_cast<size_t>(sequences)); }
  int64_t sequences() const { return static_cast<int64_t>(sequences_.size()); }
  void clear(int64_t sequence);         // empty again
  void copy(int64_t from, int64_t to);  // `to` becomes what `from` is
  int64_t tokens(int64_t sequence) const { return of(sequence).tokens; }
  // of them, from the first on: whole pages
  int64_t forgotten(int64_t sequence) const { return of(sequence).forgotten; }
  const std::vector<int64_t>& pages(int64_t sequence) const {
    return of(sequence).pages;
  }  // of the others; the last is unset behind tokens()
  const PagePool& pool() const { return pool_; }

  // k_thd [T,Hk,D], v_thd [T,Hk,Dv] (undefined where values are channels of keys): the next tokens of `rows`,
  // which are all different; offsets [rows + 1]: whose.
  void append(std::span<const int64_t> rows, std::span<const int64_t> offsets, const Tensor& k_thd,
              const Tensor& v_thd);

  // Later tokens of these sequences see `window` keys, their own among them: pages that none of them sees are
  // given back. 0: they see all.
  void forget(std::span<const int64_t> rows, int64_t window);

  // Pages that appending so many tokens takes, the copy of a shared last page included.
  int64_t pages_to_append(int64_t sequence, int64_t tokens) const;

  // A sequence as copies of its pages, each cut to the tokens that are there.
  struct Saved {
    int64_t tokens = 0, forgotten = 0;
    std::vector<std::vector<Tensor>> pages;  // PagePool::contents of each
  };
  Saved save(int64_t sequence) const;
  void restore(int64_t sequence, const Saved& saved);  // an empty sequence becomes the saved one
  void release_free_pages() { pool_.release_free(); }

  // Copies of all tokens of a sequence that were not forgotten, for the implementations that know no pages;
  // what is kept in eight bits as it is read.
  Tensor keys_shd(int64_t sequence) const;
  Tensor values_shd(int64_t sequence) const;

 private:
  struct Sequence {
    int64_t tokens = 0, forgotten = 0;
    std::vector<int64_t> pages;
  };
  Tensor gathered(int64_t sequence, const Tensor& (PagePool::*tokens)(int64_t) const,
                  const Tensor& (PagePool::*scales)(int64_t) const) const;
  const Sequence& of(int64_t sequence) const { return sequences_.at(static_cast<size_t>(sequence)); }
  int64_t page_to_write(Sequence& sequence);

  PagePool pool_;
  std::vector<Sequence> sequences_;
};

// q_thd [T,H,D] of the newest tokens of `rows`, which the cache holds already; offsets int64 [rows + 1]:
// whose queries, or undefined (one row). Implementations, in the order they are asked: cuda (bf16 on a GPU,
// one new token a sequence) and cpu, which read the pages; gathered, which copies them and calls attention.
AttentionResult attention_paged(const Tensor& q_thd, const Tensor& offsets, const KeyValueCache& cache,
                                std::span<const int64_t> rows, const AttentionOptions& options);

}  // namespace longhaul::kernels
