// Regular expressions of tokenizer.json, which are written for Oniguruma (Ruby syntax), run by PCRE2's just-in-time
// compiler. The pattern is rewritten so that \s \d \w \p{…} mean what they mean to the peer, characters newer than PCRE2's own
// Unicode tables included; what cannot be given the same meaning is refused with Error 65 naming it.
// Bad UTF-8 is matched as the control character U+001A, byte by byte. Matching is thread-safe.
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

  // All matches from left to right, as the peer iterates them (empty ones included).
  std::vector<Match> matches(std::string_view text) const;

  // The end of the last match whose extent cannot depend on what follows `text`; 0: none. Only for patterns that do not
  // look behind; others give 0.
  int64_t last_settled_end(std::string_view text) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace longhaul::data
