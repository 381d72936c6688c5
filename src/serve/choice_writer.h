// ChoiceWriter: one text of an answer as its tokens come: whole characters, stop strings wherever tokens were
// cut, log probabilities. A piece is what has become certain since the piece before.
#pragma once

#include <string>
#include <vector>

#include "data/tokenizer/continuation.h"
#include "data/tokenizer/tokenizer.h"
#include "generate/engine.h"
#include "generate/stop_strings.h"
#include "openai/request.h"
#include "openai/response.h"

namespace longhaul::serve {

class ChoiceWriter {
 public:
  // The tokenizer must outlive it.
  // `tools`: the form in which the text may call tools; kNone: whatever it holds is text.
  ChoiceWriter(const data::Tokenizer& tokenizer, const std::vector<int64_t>& prompt,
               const openai::TextOptions& options, int64_t index,
               openai::ToolForm tools = openai::ToolForm::kNone);

  bool add(const generate::Drawn& drawn);  // false: a stop string ends the text
  bool has_piece() const { return !piece_.text.empty() || !piece_.calls.empty() || !piece_.tokens.empty(); }
  openai::Choice take_piece();
  // The last piece, with the reason why the text ends.
  openai::Choice end(const generate::Generation& generation);
  bool begun() const { return begun_; }  // a piece was taken

 private:
  void write(openai::ToolCallReader::Part part);
  std::string bytes_of(int64_t id) const;
  const data::Tokenizer& tokenizer_;
  data::Continuation text_;
  generate::StopStrings stops_;
  openai::ToolCallReader calls_;
  bool begun_ = false;
  int64_t sent_calls_ = 0;
  int64_t sent_ = 0;  // bytes of tokens of which something was told
  openai::Choice piece_;
};

}  // namespace longhaul::serve
