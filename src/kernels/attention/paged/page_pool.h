// PagePool: memory for keys and values in pages of kTokens tokens, which sequences take, share and give
// back (PagedAttention, arXiv 2309.06180). A page counts its users; when the last one gives it back it is
// free, and is reused by the next taker. So the pool is as large as the most that was ever in use at once.
//
// A page holds all kv heads as [heads, tokens, channels], so that the keys of one head are contiguous. The
// contents of new and freed pages are undefined. Not thread-safe.
//
// With `int8` a token's key of one head, and its value, is kept in whole numbers with one scale:
//
//   scale = max_c |x_c| / 127      q_c = round(x_c / scale), to nearest, ties to even
//
// and what is read is scale · q, rounded to the dtype: half the bytes of bf16, and four for each scale.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace longhaul::kernels {

struct PageSizes {
  int64_t heads = 0, key = 0, value = 0;  // kv heads; channels
  // the first channels of a key are its value: nothing else is kept of it
  bool values_in_keys = false;
  at::TensorOptions options;  // dtype and device
  bool int8 = false;          // on the CPU, and not with values_in_keys
};

class PagePool {
 public:
  static constexpr int64_t kTokens = 256;

  explicit PagePool(const PageSizes& sizes);

  const PageSizes& sizes() const { return sizes_; }
  int64_t take();                             // a page with one user
  void share(int64_t page) { ++user(page); }  // one user more
  void give_back(int64_t page);               // one user less
  bool shared(int64_t page) const { return pages_[static_cast<size_t>(page)].users > 1; }
  // [heads, kTokens, key]
  const Tensor& keys(int64_t page) const { return pages_[static_cast<size_t>(page)].keys; }
  const Tensor& values(int64_t page) const {
    return pages_[static_cast<size_t>(page)].values;
  }  // [heads, kTokens, value]; rows may be a key apart
  // int8: fp32 [heads, kTokens]
  const Tensor& key_scales(int64_t page) const { return pages_[static_cast<size_t>(page)].key_scales; }
  const Tensor& value_scales(int64_t page) const { return pages_[static_cast<size_t>(page)].value_scales; }
  // All that a page holds, tokens in dimension 1.
  std::vector<Tensor> contents(int64_t page) const;

  int64_t in_use() const { return static_cast<int64_t>(pages_.size() - free_.size()); }
  void release_free();         // gives the memory of free pages back; they get new memory when they are taken
  int64_t page_bytes() const;  // of one
  int64_t bytes() const;       // of all pages, free ones too that were not released

 private:
  struct Page {
    Tensor keys, values, key_scales, value_scales;
    int64_t users = 0;
  };
  Page made() const;
  int64_t& user(int64_t page);

  PageSizes sizes_;
  std::vector<Page> pages_;
  std::vector<int64_t> free_;
  int64_t released_ = 0;  // free pages without memory
};

}  // namespace longhaul::kernels
