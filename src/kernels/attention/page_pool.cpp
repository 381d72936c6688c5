#include "kernels/attention/page_pool.h"

#include "base/error.h"

namespace longhaul::kernels {

int64_t PagePool::take() {
  if (free_.empty()) {
    pages_.push_back(
        {at::empty({sizes_.heads, kTokens, sizes_.key}, sizes_.options), at::empty({sizes_.heads, kTokens, sizes_.value}, sizes_.options)});
    free_.push_back(static_cast<int64_t>(pages_.size()) - 1);
  }
  const int64_t page = free_.back();
  free_.pop_back();
  pages_[static_cast<size_t>(page)].users = 1;
  return page;
}

int64_t& PagePool::user(int64_t page) {
  int64_t& users = pages_[static_cast<size_t>(page)].users;
  LONGHAUL_ASSERT(users > 0, "page {} is nobody's", page);
  return users;
}

void PagePool::give_back(int64_t page) {
  if (--user(page) == 0) free_.push_back(page);
}

int64_t PagePool::page_bytes() const {
  return sizes_.heads * kTokens * (sizes_.key + sizes_.value) * static_cast<int64_t>(sizes_.options.dtype().itemsize());
}

int64_t PagePool::bytes() const { return static_cast<int64_t>(pages_.size()) * page_bytes(); }

}  // namespace longhaul::kernels
