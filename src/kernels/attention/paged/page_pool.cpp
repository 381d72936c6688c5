#include "kernels/attention/paged/page_pool.h"

#include "base/error.h"

namespace longhaul::kernels {

PagePool::PagePool(const PageSizes& sizes) : sizes_(sizes) {
  LONGHAUL_ASSERT(!sizes.int8 || (!sizes.values_in_keys && sizes.options.device().is_cpu()),
                  "keys and values in eight bits are the CPU's, and of keys that hold no values");
}

PagePool::Page PagePool::made() const {
  if (sizes_.int8) {
    const auto whole = sizes_.options.dtype(at::kChar), scale = sizes_.options.dtype(at::kFloat);
    return {at::empty({sizes_.heads, kTokens, sizes_.key}, whole),
            at::empty({sizes_.heads, kTokens, sizes_.value}, whole),
            at::empty({sizes_.heads, kTokens}, scale), at::empty({sizes_.heads, kTokens}, scale)};
  }
  const Tensor keys = at::empty({sizes_.heads, kTokens, sizes_.key}, sizes_.options);
  const Tensor values = sizes_.values_in_keys
                            ? keys.narrow(2, 0, sizes_.value)
                            : at::empty({sizes_.heads, kTokens, sizes_.value}, sizes_.options);
  return {keys, values, {}, {}};
}

std::vector<Tensor> PagePool::contents(int64_t page) const {
  const Page& of = pages_[static_cast<size_t>(page)];
  std::vector<Tensor> all = {of.keys};
  if (!sizes_.values_in_keys) all.push_back(of.values);
  if (sizes_.int8) all.insert(all.end(), {of.key_scales, of.value_scales});
  return all;
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
  if (sizes_.int8) return sizes_.heads * kTokens * (sizes_.key + sizes_.value + 2 * int64_t{sizeof(float)});
  const int64_t channels = sizes_.key + (sizes_.values_in_keys ? 0 : sizes_.value);
  return sizes_.heads * kTokens * channels * static_cast<int64_t>(sizes_.options.dtype().itemsize());
}

int64_t PagePool::bytes() const { return (static_cast<int64_t>(pages_.size()) - released_) * page_bytes(); }

}  // namespace longhaul::kernels
