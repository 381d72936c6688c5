#include "tensor/block_pool.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/memory/pages.h"

namespace longhaul {

struct PageRange {
  BlockPool* pool = nullptr;
  char* begin = nullptr;
  size_t size = 0;
  std::vector<bool> touched;  // by huge page: handed out since it was mapped or given back

  size_t page_of(const void* address) const {
    return static_cast<size_t>(static_cast<const char*>(address) - begin) / kHugePage;
  }
};

namespace {

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }
const char* end_of(const Block* block) { return reinterpret_cast<const char*>(block) + block->size; }

}  // namespace

BlockPool::BlockPool(size_t range_bytes, size_t grain, size_t smallest)
    : range_bytes_(range_bytes), grain_(grain), smallest_(smallest) {
  LONGHAUL_ASSERT(range_bytes % kHugePage == 0 && grain % alignof(Block) == 0 && smallest >= sizeof(Block));
}

BlockPool::~BlockPool() {
  for (const auto& range : ranges_) unmap_pages(range->begin, range->size);
}

BlockPool& BlockPool::of(const Block* block) { return *block->range->pool; }

size_t BlockPool::rounded(size_t size) const { return std::max(round_up(size, grain_), smallest_); }

Block* BlockPool::after(Block* block) const {
  char* next = reinterpret_cast<char*>(block) + block->size;
  return next == block->range->begin + block->range->size ? nullptr : reinterpret_cast<Block*>(next);
}

BlockPool::FreeBlocks::node_type BlockPool::new_entry() {
  FreeBlocks one{{0, nullptr}};
  return one.extract(one.begin());
}

void BlockPool::add_free(Block* block, FreeBlocks::node_type entry) {
  entry.value() = {block->size, block};
  free_.insert(std::move(entry));
}

Block* BlockPool::map_range(size_t size) {
  const size_t least = round_up(size, kHugePage);
  size_t bytes = std::max(range_bytes_, least);
  // All that may fail comes before the pages.
  auto range = std::make_unique<PageRange>();
  range->touched.reserve(bytes / kHugePage);
  ranges_.reserve(ranges_.size() + 1);
  FreeBlocks::node_type entry = new_entry();
  void* begin = map_huge_pages(bytes);
  // little address space is left (ulimit -v)
  if (begin == nullptr && bytes > least) begin = map_huge_pages(bytes = least);
  if (begin == nullptr) return nullptr;
  range->pool = this;
  range->begin = static_cast<char*>(begin);
  range->size = bytes;
  range->touched.assign(bytes / kHugePage, false);
  range->touched[0] = true;  // by the header
  held_ += kHugePage;
  auto* block = new (begin) Block{.state = BlockState::kFree, .size = bytes, .range = range.get()};
  ranges_.push_back(std::move(range));
  add_free(block, std::move(entry));
  return block;
}

Block* BlockPool::find(size_t size) {
  const auto found = free_.lower_bound({size, nullptr});
  return found != free_.end() ? found->second : map_range(size);
}

size_t BlockPool::fresh_bytes(const Block* block, size_t size) const {
  const PageRange& range = *block->range;
  const char* begin = reinterpret_cast<const char*>(block);
  const char* end = begin + size;
  if (block->size - size >= smallest_) end += sizeof(Block);  // the header of the rest
  size_t pages = 0;
  for (size_t page = range.page_of(begin); page <= range.page_of(end - 1); ++page)
    pages += range.touched[page] ? 0 : 1;
  return pages * kHugePage;
}

Block* BlockPool::cut(Block* block, size_t size) {
  LONGHAUL_ASSERT(block->state == BlockState::kFree && block->size >= size, "block of {}, {} wanted",
                  block->size, size);
  const size_t rest = block->size - size;
  if (spares_.size() == spares_.capacity()) spares_.reserve(2 * spares_.size() + 64);
  FreeBlocks::node_type fresh = rest >= smallest_ ? new_entry() : FreeBlocks::node_type();
  held_ += fresh_bytes(block, size);
  PageRange& range = *block->range;
  FreeBlocks::node_type entry = free_.extract({block->size, block});
  char* end = reinterpret_cast<char*>(block) + size;
  if (rest >= smallest_) {
    Block* next = after(block);
    auto* left =
        new (end) Block{.state = BlockState::kFree, .size = rest, .range = &range, .neighbour = block};
    if (next != nullptr) next->neighbour = left;
    block->size = size;
    add_free(left, std::exchange(entry, std::move(fresh)));
    end += sizeof(Block);
  }
  spares_.push_back(std::move(entry));
  for (size_t page = range.page_of(block); page <= range.page_of(end - 1); ++page) range.touched[page] = true;
  block->state = BlockState::kUsed;
  return block;
}

void BlockPool::free(Block* block) {
  block->state = BlockState::kFree;
  const auto absorb = [this](Block* first, Block* second) {
    first->size += second->size;
    if (Block* beyond = after(first)) beyond->neighbour = first;
  };
  if (Block* next = after(block); next != nullptr && next->state == BlockState::kFree) {
    free_.erase({next->size, next});
    absorb(block, next);
  }
  if (Block* before = block->neighbour; before != nullptr && before->state == BlockState::kFree) {
    free_.erase({before->size, before});
    absorb(before, block);
    block = before;
  }
  add_free(block, std::move(spares_.back()));
  spares_.pop_back();
}

void BlockPool::trim() {
  const auto give_back = [this](const Block* block) {
    PageRange& range = *block->range;
    // The header's page stays, and so does a last page that the next block shares.
    const size_t first = range.page_of(reinterpret_cast<const char*>(block) + sizeof(Block) - 1) + 1;
    const size_t last = static_cast<size_t>(end_of(block) - range.begin) / kHugePage;
    for (size_t page = first; page < last; ++page) {
      if (!range.touched[page]) continue;
      size_t stop = page;
      while (stop < last && range.touched[stop]) range.touched[stop++] = false;
      release_pages(range.begin + page * kHugePage, (stop - page) * kHugePage);
      held_ -= (stop - page) * kHugePage;
      page = stop - 1;
    }
  };
  for (const auto& [size, block] : free_) give_back(block);
  std::erase_if(ranges_, [this](const std::unique_ptr<PageRange>& range) {
    auto* first = reinterpret_cast<Block*>(range->begin);
    if (first->state != BlockState::kFree || first->size != range->size) return false;
    free_.erase({first->size, first});
    held_ -= kHugePage;  // the header's page, the only one left
    unmap_pages(range->begin, range->size);
    return true;
  });
}

void BlockPool::for_each_used(const std::function<void(Block*)>& body) const {
  for (const auto& range : ranges_) {
    for (auto* block = reinterpret_cast<Block*>(range->begin); block != nullptr; block = after(block)) {
      if (block->state == BlockState::kUsed) body(block);
    }
  }
}

}  // namespace longhaul
