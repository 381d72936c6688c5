// Text that grows token by token. What a token stands for can depend on those before it (SentencePiece drops the space that begins a
// text; a character may be spread over several tokens), so the text is that of all tokens, and only its new end is given out. The last few tokens
// are enough for it with most tokenizers, so a token costs the same whatever stands before it; the others decode everything again.
#pragma once

#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.h"

namespace longhaul::data {

class Continuation {
 public:
  Continuation(const Tokenizer& tokenizer, std::vector<int32_t> prompt);  // the tokenizer must outlive it
  std::string add(int32_t id);                                            // what can be shown now: whole characters only
  std::string rest() const;                                               // what is left when no token follows
  const std::string& text() const { return text_; }                       // all that add() gave out

 private:
  void forget();

  const Tokenizer& tokenizer_;
  std::vector<int32_t> ids_;  // the last ones of prompt and tokens
  std::string decoded_;       // of ids_
  size_t shown_;              // bytes of decoded_ that were shown, the prompt's included
  std::string text_;
};

}  // namespace longhaul::data
