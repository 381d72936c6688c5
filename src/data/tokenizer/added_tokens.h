// Added tokens of tokenizer.json: texts that become one id before the model sees them (special or not).
// Matches are leftmost, then longest, in two rounds as in Hugging Face `tokenizers`: tokens with normalized =
// false in the raw text, the others in the normalized text. Const functions are thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/text/json.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/splitting/normalizer.h"

namespace longhaul::data {

struct AddedToken {
  std::string content;
  std::string normalized_content;  // its form in normalized text; the content itself for normalized = false
  int32_t id = 0;
  bool single_word = false, left_strip = false, right_strip = false, normalized = true, special = false;
};

// TextSet finds the leftmost-longest occurrence of any of a set of texts, with a byte trie that is entered
// only at bytes that begin a text.
class TextSet {
 public:
  void add(std::string_view text, int32_t value);
  bool empty() const { return nodes_.size() <= 1; }
  size_t longest() const { return longest_; }
  struct Found {
    size_t begin, end;
    int32_t value;
  };
  std::optional<Found> find(std::string_view text, size_t from) const;
  // True if any text occurs across or next to the cut at `at`; texts that begin inside `text` and may
  // continue count too.
  bool touches(std::string_view text, size_t at) const;

 private:
  struct Node {
    std::vector<std::pair<uint8_t, int32_t>> next;  // sorted by byte
    int32_t value = -1;
  };
  int32_t step(int32_t node, uint8_t byte) const;
  std::vector<Node> nodes_{1};
  std::array<bool, 256> first_{};
  int only_first_ = -1;  // the single byte with which all texts begin; -2: several
  size_t longest_ = 0;
};

// Whether bytes [begin, end) of a text may be a special token.
using SpecialAllowed = std::function<bool(size_t begin, size_t end)>;

class AddedTokens {
 public:
  AddedTokens() = default;
  AddedTokens(const JsonView& list, const Bpe& model, const Normalizer& normalizer);

  struct Part {
    std::string_view text;
    int32_t id = -1;  // ≥ 0: the text is that added token (with the spaces that it strips)
  };
  // Calls part(Part) from left to right; parts cover the text. A special token is passed over where
  // `allowed`, if there is one, does not allow it.
  template <class Use>
  void split(std::string_view text, bool normalized_round, Use&& part,
             const SpecialAllowed* allowed = nullptr) const {
    const TextSet& set = normalized_round ? normalized_ : raw_;
    if (set.empty()) {
      part(Part{text, -1});
      return;
    }
    size_t done = 0;
    for (size_t from = 0; const auto found = set.find(text, from);) {
      const bool special = tokens_[static_cast<size_t>(found->value)].special;
      if (special && allowed != nullptr && !(*allowed)(found->begin, found->end)) {
        from = found->begin + 1;
        continue;
      }
      from = found->end;
      const auto [begin, end] =
          extent(tokens_[static_cast<size_t>(found->value)], text, found->begin, found->end, done);
      if (begin > end) continue;  // not a separate word
      if (begin > done) part(Part{text.substr(done, begin - done), -1});
      part(Part{text.substr(begin, end - begin), tokens_[static_cast<size_t>(found->value)].id});
      done = end;
    }
    if (done < text.size()) part(Part{text.substr(done), -1});
  }

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  const AddedToken* by_id(int32_t id) const;
  std::optional<int32_t> id_of(std::string_view content) const;
  // True if raw text may be cut at `at` without changing any match (for streaming); false also where that is
  // unknown.
  bool cut_allowed(std::string_view text, size_t at) const;
  size_t longest() const { return std::max(raw_.longest(), normalized_.longest()); }

 private:
  // The token with its stripped spaces; begin > end if it must be a single word and is not.
  static std::pair<size_t, size_t> extent(const AddedToken& token, std::string_view text, size_t begin,
                                          size_t end, size_t done);

  std::vector<AddedToken> tokens_;
  std::unordered_map<int32_t, size_t> by_id_;
  TextIds by_content_;
  TextSet raw_, normalized_;
  TextSet contents_;      // all of them as written, for cut_allowed
  bool context_ = false;  // some token depends on its neighbours
};

}  // namespace longhaul::data
