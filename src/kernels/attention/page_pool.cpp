#include "kernels/attention/page_pool.h"

#include "base/error.h"

namespace longhaul::kernels {

PagePool::Page PagePool::made() const {
  const Tensor keys = at::empty({sizes_.heads, kTokens, sizes_.key}, sizes_.options);
  const Tensor values = sizes_.values_in_keys
                            ? keys.narrow(2, 0, sizes_.value)
                            : at::empty({sizes_.heads, kTokens, sizes_.value}, sizes_.options);
  return {keys, values};
}

int64_t PagePool::take() {
  if (free_.empty()) {
    pages_.push_back(made());
    free_.push_back(static_cast<int64_t>(pages_.size()) - 1);
  }
  const int64_t page = free_.back();
  if (Page& taken = pages_[static_cast<size_t>(page)]; !taken.keys.defined()) {
    taken = made();
    --released_;
  }
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

void PagePool::release_free() {
  for (const int64_t page : free_) pages_[static_cast<size_t>(page)] = {};
  released_ = static_cast<int64_t>(free_.size());
}

int64_t PagePool::page_bytes() const {
  const int64_t channels = sizes_.key + (sizes_.values_in_keys ? 0 : sizes_.value);
  return sizes_.heads * kTokens * channels * static_cast<int64_t>(sizes_.options.dtype().itemsize());
}

int64_t PagePool::bytes() const { return (static_cast<int64_t>(pages_.size()) - released_) * page_bytes(); }

}  // namespace longhaul::kernels
