#include "data/tokenizer/added_tokens.h"

#include <algorithm>
#include <cstring>

#include "data/tokenizer/splitting/unicode.h"

namespace longhaul::data {

int32_t TextSet::step(int32_t node, uint8_t byte) const {
  const auto& next = nodes_[static_cast<size_t>(node)].next;
  const auto at = std::lower_bound(next.begin(), next.end(), byte,
                                   [](const auto& edge, uint8_t wanted) { return edge.first < wanted; });
  return at != next.end() && at->first == byte ? at->second : -1;
}

void TextSet::add(std::string_view text, int32_t value) {
  int32_t node = 0;
  for (const char c : text) {
    const uint8_t byte = static_cast<uint8_t>(c);
    int32_t next = step(node, byte);
    if (next < 0) {
      next = static_cast<int32_t>(nodes_.size());
      auto& edges = nodes_[static_cast<size_t>(node)].next;
      edges.insert(std::upper_bound(edges.begin(), edges.end(), std::pair<uint8_t, int32_t>{byte, 0}),
                   {byte, next});
      nodes_.emplace_back();
    }
    node = next;
  }
  nodes_[static_cast<size_t>(node)].value = value;
  const int first = static_cast<uint8_t>(text[0]);
  only_first_ = only_first_ == -1 || only_first_ == first ? first : -2;
  first_[static_cast<size_t>(first)] = true;
  longest_ = std::max(longest_, text.size());
}

std::optional<TextSet::Found> TextSet::find(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (only_first_ >= 0) {
      const void* next = std::memchr(text.data() + begin, only_first_, text.size() - begin);
      if (next == nullptr) return std::nullopt;
      begin = static_cast<size_t>(static_cast<const char*>(next) - text.data());
    } else if (!first_[static_cast<uint8_t>(text[begin])]) {
      continue;
    }
    int32_t node = 0;
    std::optional<Found> best;
    for (size_t at = begin; at < text.size(); ++at) {
      node = step(node, static_cast<uint8_t>(text[at]));
      if (node < 0) break;
      if (nodes_[static_cast<size_t>(node)].value >= 0)
        best = Found{begin, at + 1, nodes_[static_cast<size_t>(node)].value};
    }
    if (best) return best;
  }
  return std::nullopt;
}

bool TextSet::touches(std::string_view text, size_t at) const {
  for (size_t begin = at > longest_ ? at - longest_ : 0; begin <= at && begin < text.size(); ++begin) {
    if (!first_[static_cast<uint8_t>(text[begin])]) continue;
    int32_t node = 0;
    size_t stop = begin;
    while (stop < text.size()) {
      node = step(node, static_cast<uint8_t>(text[stop]));
      if (node < 0) break;
      ++stop;
      if (nodes_[static_cast<size_t>(node)].value >= 0 && stop >= at) return true;
    }
    if (node >= 0) return true;  // may still become a match
  }
  return false;
}

AddedTokens::AddedTokens(const JsonView& list, const Bpe& model, const Normalizer& normalizer) {
  if (list.is_null()) return;
  int64_t next_id = model.entries();
  for (size_t i = 0; i < list.array_size(); ++i) {
    const JsonView entry = list.at(i);
    AddedToken token;
    token.content = entry.at("content").string();
    const int64_t id = entry.at("id").integer(0, (1 << 24) - 1);
    token.special = entry.boolean_or("special", false);
    token.normalized = entry.boolean_or("normalized", !token.special);
    token.single_word = entry.boolean_or("single_word", false);
    token.left_strip = entry.boolean_or("lstrip", false);
    token.right_strip = entry.boolean_or("rstrip", false);
    if (token.content.empty()) continue;  // `tokenizers` skips it too
    if (by_content_.contains(token.content))
      entry.fail("every added token once", fmt::format("\"{}\" a second time", token.content));
    // Hugging Face `tokenizers` numbers added tokens itself: the model's id, else the next free one. A file
    // with other numbers is refused.
    const auto known = model.id_of(token.content);
    const int64_t assigned = known ? *known : next_id++;
    if (assigned != id) {
      entry.at("id").fail(fmt::format("{}, the id that this token gets after the model's {} entries",
                                      assigned, model.entries()),
                          fmt::format("{}", id));
    }
    token.id = static_cast<int32_t>(id);
    token.normalized_content = token.content;
    if (token.normalized) {
      std::deque<std::string> storage;
      token.normalized_content = std::string(normalizer.apply(token.content, false, storage));
      if (token.normalized_content.empty())
        entry.fail("a text that the normalizer leaves something of", token.content);
    }
    context_ = context_ || token.single_word || token.left_strip || token.right_strip;
    const auto index = static_cast<int32_t>(tokens_.size());
    (token.normalized ? normalized_ : raw_).add(token.normalized_content, index);
    contents_.add(token.content, index);
    by_id_[token.id] = tokens_.size();
    by_content_.emplace(token.content, token.id);
    tokens_.push_back(std::move(token));
  }
}

const AddedToken* AddedTokens::by_id(int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

std::optional<int32_t> AddedTokens::id_of(std::string_view content) const {
  const auto found = by_content_.find(content);
  if (found == by_content_.end()) return std::nullopt;
  return found->second;
}

std::pair<size_t, size_t> AddedTokens::extent(const AddedToken& token, std::string_view text, size_t begin,
                                              size_t end, size_t done) {
  const char* first = text.data();
  const char* last = first + text.size();
  if (token.single_word) {
    const bool word_before =
        begin > 0 && (properties_of(decode_utf8_before(first, first + begin).code) & kWordProperty);
    const bool word_after =
        end < text.size() && (properties_of(decode_utf8(first + end, last).code) & kWordProperty);
    if (word_before || word_after) return {1, 0};
  }
  if (token.left_strip) {
    while (begin > done) {
      const Decoded before = decode_utf8_before(first, first + begin);
      if (!is_space(before.code)) break;
      begin -= static_cast<size_t>(before.length);
    }
    begin = std::max(begin, done);
  }
  if (token.right_strip) {
    while (end < text.size()) {
      const Decoded after = decode_utf8(first + end, last);
      if (!is_space(after.code)) break;
      end += static_cast<size_t>(after.length);
    }
  }
  return {begin, end};
}

bool AddedTokens::cut_allowed(std::string_view text, size_t at) const {
  if (contents_.touches(text, at) || normalized_.touches(text, at)) return false;
  if (!context_) return true;
  // Stripping reaches over spaces: the character before the cut must end any such run.
  return at > 0 && !is_space(decode_utf8_before(text.data(), text.data() + at).code);
}

}  // namespace longhaul::data
