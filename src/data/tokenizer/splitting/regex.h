// Regular expressions of tokenizer.json, which are written for Oniguruma (Ruby syntax), run by PCRE2's
// just-in-time compiler. The pattern is rewritten so that \s \d \w \p{…} mean the same as in Hugging Face
// `tokenizers`, also for characters newer than PCRE2's own Unicode tables; a construct that cannot be given
// the same meaning is refused with Error 65, which names it. Each byte of bad UTF-8 is matched as the control
// character U+001A. Matching is thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::data {

struct Match {
  int64_t begin, end;
};

class Regex {
 public:
  Regex(std::string_view pattern, const std::string& where);
  static Regex literal(std::string_view text, const std::string& where);  // matches the text itself

  // All matches from left to right, including empty ones, as `tokenizers` iterates them.
  std::vector<Match> matches(std::string_view text) const;

  // The end of the last match whose extent cannot depend on the text that follows; 0: there is none. Only for
  // patterns without lookbehind; others give 0.
  int64_t last_settled_end(std::string_view text) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace longhaul::data
