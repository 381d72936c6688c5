// Text that grows token by token. What a token stands for can depend on those before it (SentencePiece drops the space that begins a
// text; a character may be spread over several tokens), so the text is that of all tokens, and only its new end is given out.
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
  const Tokenizer& tokenizer_;
  std::vector<int32_t> ids_;
  std::string decoded_, text_;  // of prompt and tokens
  size_t shown_;                // bytes of decoded_ that were shown, the prompt's included
};

}  // namespace longhaul::data
