#include "generate/prefix_cache.h"

#include <algorithm>

#include "base/error.h"

namespace longhaul::generate {
namespace {

std::vector<int64_t> tokens_of_page(std::span<const int64_t> ids, int64_t page) {
  const auto own = ids.subspan(static_cast<size_t>(page * PrefixCache::kTokens), static_cast<size_t>(PrefixCache::kTokens));
  return {own.begin(), own.end()};
}

}  // namespace

PrefixCache::PrefixCache(model::DecoderState& state, int64_t bytes)
    : state_(state), bytes_of_one_(2 * state.row_bytes() + state.page_bytes()), most_(bytes_of_one_ > 0 ? bytes / bytes_of_one_ : 0) {}

PrefixCache::Node* PrefixCache::found(std::span<const int64_t> ids, int64_t pages) {
  Node* node = &root_;
  ++clock_;
  for (int64_t page = 0; page < pages; ++page) {
    const auto next = node->longer.find(tokens_of_page(ids, page));
    if (next == node->longer.end()) break;
    node = next->second.get();
    node->last_used = clock_;
  }
  return node;
}

int64_t PrefixCache::begin(std::span<const int64_t> ids) {
  LONGHAUL_ASSERT(!ids.empty());
  const auto tokens = static_cast<int64_t>(ids.size());
  const Node* const node = found(ids, std::max<int64_t>(0, tokens - kLeast) / kTokens);
  const int64_t row = node->row < 0 ? state_.add() : state_.fork(node->row);
  counts_.prompts += 1;
  counts_.continued += node->row < 0 ? 0 : 1;
  counts_.tokens += tokens;
  counts_.tokens_not_read += state_.tokens(row);
  return row;
}

void PrefixCache::keep(std::span<const int64_t> ids, int64_t row) {
  const auto tokens = static_cast<int64_t>(ids.size());
  LONGHAUL_ASSERT(tokens > 0 && tokens % kTokens == 0 && state_.tokens(row) == tokens, "{} tokens, of which the sequence has {}", tokens,
                  state_.tokens(row));
  const int64_t pages = tokens / kTokens;
  Node* const above = found(ids, pages);
  const int64_t has = above->row < 0 ? 0 : state_.tokens(above->row);
  if (has != tokens - kTokens || !make_room(*above)) return;  // it is there, or the shorter one had no room
  auto node = std::make_unique<Node>();
  node->row = state_.fork(row);
  node->last_used = clock_;
  node->above = above;
  above->longer.emplace(tokens_of_page(ids, pages - 1), std::move(node));
  ++kept_;
}

// Without the end `but`, which is about to get a longer one.
PrefixCache::Node* PrefixCache::least_used_end(Node& node, const Node& but) {
  if (node.longer.empty()) return &node == &but || node.row < 0 ? nullptr : &node;
  Node* least = nullptr;
  for (const auto& [tokens, longer] : node.longer) {
    Node* const end = least_used_end(*longer, but);
    if (end != nullptr && (least == nullptr || end->last_used < least->last_used)) least = end;
  }
  return least;
}

bool PrefixCache::make_room(const Node& but) {
  if (kept_ < most_) return true;
  Node* const end = most_ > 0 ? least_used_end(root_, but) : nullptr;
  if (end == nullptr) return false;
  state_.drop(end->row);
  --kept_;
  ++counts_.dropped;
  std::erase_if(end->above->longer, [&](const auto& entry) { return entry.second.get() == end; });
  return true;
}

}  // namespace longhaul::generate
