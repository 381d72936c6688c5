// Continuation: text that grows token by token. The text of a token can depend on the tokens before it
// (SentencePiece drops the space that begins a text; a character may span several tokens), so all tokens are
// decoded and only the new end of the text is returned. For most tokenizers the last few tokens suffice, so
// the cost of a token does not depend on the length of the text; for the others everything is decoded again.
#pragma once

#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.h"

namespace longhaul::data {

class Continuation {
 public:
  Continuation(const Tokenizer& tokenizer, std::vector<int32_t> prompt);  // the tokenizer must outlive it
  // the text that can be shown now: whole characters only
  std::string add(int32_t id);
  // the remaining text when no token follows
  std::string rest() const;
  // everything that add() has returned
  const std::string& text() const { return text_; }

 private:
  void forget();

  const Tokenizer& tokenizer_;
  std::vector<int32_t> ids_;  // the last ids of prompt and tokens
  std::string decoded_;       // text of ids_
  size_t shown_;              // bytes of decoded_ that were shown, including the prompt's
  std::string text_;
};

}  // namespace longhaul::data
