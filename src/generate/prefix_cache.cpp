#include "generate/prefix_cache.h"

#include <algorithm>

#include "base/error.h"
#include "recipe/mixers.h"

namespace longhaul::generate {
namespace {

std::vector<int64_t> tokens_of_page(std::span<const int64_t> ids, int64_t page) {
  const auto own = ids.subspan(static_cast<size_t>(page * PrefixCache::kTokens),
                               static_cast<size_t>(PrefixCache::kTokens));
  return {own.begin(), own.end()};
}

std::vector<int64_t> end_of(std::span<const int64_t> ids, int64_t pages) {
  const auto rest = ids.subspan(static_cast<size_t>(pages * PrefixCache::kTokens));
  return {rest.begin(), rest.end()};
}

}  // namespace

int64_t least_read_at_once(const recipe::ModelConfig& config) {
  for (int64_t layer = 0; layer < config.layers; ++layer)
    if (recipe::operators_of_layer(config, layer).delta_rule.heads > 0) return 64;
  return 8;
}

PrefixCache::PrefixCache(model::DecoderState& state, int64_t bytes, int64_t least)
    : state_(state),
      bytes_of_one_(2 * state.row_bytes() + state.page_bytes()),
      limit_(bytes),
      least_(least) {}

int64_t PrefixCache::pages_before_end(std::span<const int64_t> ids) const {
  return std::max<int64_t>(0, std::ssize(ids) - least_) / kTokens;
}

PrefixCache::Node* PrefixCache::found(std::span<const int64_t> ids, int64_t pages, int64_t adapter) {
  Node* node = &roots_[adapter];
  ++clock_;
  for (int64_t page = 0; page < pages; ++page) {
    const auto next = node->longer.find(tokens_of_page(ids, page));
    if (next == node->longer.end()) break;
    node = next->second.get();
    node->last_used = clock_;
  }
  return node;
}

int64_t PrefixCache::next_stop(int64_t read, int64_t tokens) const {
  const int64_t page = (read / kTokens + 1) * kTokens, last_step = (tokens - least_) / kStep * kStep;
  if (tokens - page >= least_) return page;
  return tokens >= kLong && last_step > read ? last_step : tokens;
}

// A longer one that leaves enough to be read, and ends with a step.
PrefixCache::Node* PrefixCache::with_steps(Node* node, std::span<const int64_t> ids) const {
  const int64_t read = tokens_of(*node),
                most = std::min(kTokens - kStep, (std::ssize(ids) - least_ - read) / kStep * kStep);
  const auto rest = ids.subspan(static_cast<size_t>(read));
  for (int64_t steps = most; steps > 0; steps -= kStep) {
    const auto next = rest.first(static_cast<size_t>(steps));
    const auto longer = node->longer.find(std::vector<int64_t>(next.begin(), next.end()));
    if (longer != node->longer.end()) return longer->second.get();
  }
  return node;
}

PrefixCache::Begun PrefixCache::begin(std::span<const int64_t> ids, bool whole, int64_t adapter) {
  LONGHAUL_ASSERT(!ids.empty());
  const int64_t pages = pages_before_end(ids);
  Node* node = found(ids, pages, adapter);
  Tensor logits_v;
  const auto kept = whole && tokens_of(*node) == pages * kTokens ? node->longer.find(end_of(ids, pages))
                                                                 : node->longer.end();
  if (kept != node->longer.end() && kept->second->logits_v.defined()) {
    node = kept->second.get();
    logits_v = node->logits_v;
  } else {
    node = with_steps(node, ids);
  }
  node->last_used = clock_;
  const int64_t row = node->row < 0 ? state_.add() : state_.fork(node->row);
  counts_.prompts += 1;
  counts_.continued += node->row < 0 ? 0 : 1;
  counts_.tokens += std::ssize(ids);
  counts_.tokens_not_read += state_.tokens(row);
  return {row, logits_v};
}

void PrefixCache::add(Node& above, std::span<const int64_t> rest, int64_t row, int64_t bytes) {
  auto node = std::make_unique<Node>();
  node->row = state_.fork(row);
  node->last_used = clock_;
  node->bytes = bytes;
  node->above = &above;
  above.longer.emplace(std::vector<int64_t>(rest.begin(), rest.end()), std::move(node));
  ++kept_;
  bytes_ += bytes;
}

void PrefixCache::keep(std::span<const int64_t> ids, int64_t row, int64_t adapter) {
  const auto tokens = std::ssize(ids);
  LONGHAUL_ASSERT(tokens > 0 && tokens % kStep == 0 && state_.tokens(row) == tokens,
                  "{} tokens, of which the sequence has {}", tokens, state_.tokens(row));
  const int64_t pages = (tokens - 1) / kTokens;
  Node* const above = found(ids, pages, adapter);
  if (tokens_of(*above) != pages * kTokens) return;  // the shorter one had no room
  if (const auto there = above->longer.find(end_of(ids, pages)); there != above->longer.end())
    there->second->last_used = clock_;
  else if (make_room(bytes_of_one_, above))
    add(*above, ids.subspan(static_cast<size_t>(pages * kTokens)), row, bytes_of_one_);
}

void PrefixCache::keep_prompt(std::span<const int64_t> ids, int64_t row, const Tensor& logits_v,
                              int64_t adapter) {
  LONGHAUL_ASSERT(state_.tokens(row) == std::ssize(ids), "{} tokens, of which the sequence has {}",
                  ids.size(), state_.tokens(row));
  const int64_t pages = pages_before_end(ids);
  Node* const above = found(ids, pages, adapter);
  if (tokens_of(*above) != pages * kTokens) return;
  const auto logit_bytes = static_cast<int64_t>(logits_v.nbytes());
  const auto there = above->longer.find(end_of(ids, pages));
  if (there == above->longer.end()) {
    // The end of a prompt may need two pages, of which the last is not whole.
    const int64_t bytes = bytes_of_one_ + state_.page_bytes() + logit_bytes;
    if (!make_room(bytes, above)) return;
    add(*above, ids.subspan(static_cast<size_t>(pages * kTokens)), row, bytes);
    above->longer.find(end_of(ids, pages))->second->logits_v = logits_v.clone();
  } else if (!there->second->logits_v.defined()) {
    // a prompt that ends with a page, which was kept as a prefix
    there->second->logits_v = logits_v.clone();
    there->second->bytes += logit_bytes;
    bytes_ += logit_bytes;
  }
}

// Without the end `but`, which is about to get a longer one.
PrefixCache::Node* PrefixCache::least_used_end(Node& node, const Node* but) {
  if (node.longer.empty()) return &node == but || node.row < 0 ? nullptr : &node;
  Node* least = nullptr;
  for (const auto& [tokens, longer] : node.longer) {
    Node* const end = least_used_end(*longer, but);
    if (end != nullptr && (least == nullptr || end->last_used < least->last_used)) least = end;
  }
  return least;
}

PrefixCache::Node* PrefixCache::least_used_end(const Node* but) {
  std::vector<Node*> ends;
  for (auto& [adapter, root] : roots_) {
    if (Node* const end = least_used_end(root, but); end != nullptr) ends.push_back(end);
  }
  const auto least = std::ranges::min_element(ends, {}, &Node::last_used);
  return least == ends.end() ? nullptr : *least;
}

void PrefixCache::drop(Node& end) {
  state_.drop(end.row);
  --kept_;
  bytes_ -= end.bytes;
  ++counts_.dropped;
  std::erase_if(end.above->longer, [&](const auto& entry) { return entry.second.get() == &end; });
}

bool PrefixCache::make_room(int64_t bytes, const Node* but) {
  if (bytes_of_one_ == 0 || bytes > limit_) return false;
  while (bytes_ + bytes > limit_) {
    Node* const end = least_used_end(but);
    if (end == nullptr) return false;
    drop(*end);
  }
  return true;
}

bool PrefixCache::drop_least_used() {
  Node* const end = least_used_end(nullptr);
  if (end != nullptr) drop(*end);
  return end != nullptr;
}

}  // namespace longhaul::generate
