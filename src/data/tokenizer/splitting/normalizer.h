// The normalizer of tokenizer.json: NFC, Replace, Prepend and sequences of them, applied to the text between
// added tokens. Reading any other type throws Error 65. Const functions are thread-safe.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/json.h"
#include "data/tokenizer/splitting/regex.h"

namespace longhaul::data {

class Normalizer {
 public:
  Normalizer() = default;
  explicit Normalizer(const JsonView& definition);

  // Returns the text itself when nothing changes; otherwise a view into `storage`. `continued`: the text
  // continues an earlier part (streaming), so nothing is prepended.
  std::string_view apply(std::string_view text, bool continued, std::deque<std::string>& storage) const;

  bool empty() const { return steps_.empty(); }
  bool only_nfc() const;  // every step is NFC
  // Every step prepends, or replaces single characters: text may be cut between any two characters.
  bool by_character() const;
  char32_t space_becomes() const;  // the result of the steps for a space (single-character replacements only)

 private:
  struct Step {
    enum class Kind { kNfc, kReplaceText, kReplacePattern, kPrepend } kind;
    std::string text;     // the replaced or prepended text
    std::string content;  // replacement
    std::optional<Regex> pattern;
  };
  void read(const JsonView& definition, int depth);
  std::vector<Step> steps_;
};

}  // namespace longhaul::data
