#include "serve/choice_writer.h"

#include <algorithm>

namespace longhaul::serve {
namespace {

// The text of a token may depend on the tokens before it, of which a few suffice for most tokenizers.
std::vector<int32_t> last_of(const data::Tokenizer& tokenizer, const std::vector<int64_t>& prompt) {
  constexpr ptrdiff_t kEnough = 32;
  const auto count = tokenizer.decodes_locally() ? std::min(kEnough, std::ssize(prompt)) : std::ssize(prompt);
  return {prompt.end() - count, prompt.end()};
}

}  // namespace

ChoiceWriter::ChoiceWriter(const data::Tokenizer& tokenizer, const std::vector<int64_t>& prompt,
                           const openai::TextOptions& options, int64_t index, openai::ToolForm tools)
    : tokenizer_(tokenizer),
      text_(tokenizer, last_of(tokenizer, prompt)),
      stops_(options.stop, options.keeps_stop),
      calls_(tools) {
  piece_.index = index;
  piece_.with_logprobs = options.logprobs;
  piece_.with_experts = options.experts;
}

std::string ChoiceWriter::bytes_of(int64_t id) const {
  const auto narrow = static_cast<int32_t>(id);
  return tokenizer_.decode(std::span(&narrow, 1));
}

void ChoiceWriter::write(openai::ToolCallReader::Part part) {
  piece_.text += part.text;
  std::ranges::move(part.calls, std::back_inserter(piece_.calls));
}

bool ChoiceWriter::add(const generate::Drawn& drawn) {
  write(calls_.add(stops_.add(text_.add(static_cast<int32_t>(drawn.id)))));
  if (piece_.with_logprobs || piece_.with_experts) {
    openai::TokenText token{.bytes = bytes_of(drawn.id), .log_probability = drawn.log_probability};
    for (const auto& [id, log_probability] : drawn.top) token.top.emplace_back(bytes_of(id), log_probability);
    for (const auto& [layer, chosen] : drawn.experts) token.experts.push_back({layer, chosen});
    piece_.tokens.push_back(std::move(token));
  }
  return !stops_.found();
}

openai::Choice ChoiceWriter::take_piece() {
  openai::Choice piece = piece_;
  piece.text_offset = sent_;
  for (const openai::TokenText& token : piece.tokens) sent_ += std::ssize(token.bytes);
  piece.first_call = sent_calls_;
  sent_calls_ += std::ssize(piece.calls);
  piece_.text.clear();
  piece_.calls.clear();
  piece_.tokens.clear();
  begun_ = true;
  return piece;
}

openai::Choice ChoiceWriter::end(const generate::Generation& generation) {
  if (!stops_.found()) {
    write(calls_.add(stops_.add(text_.rest())));
    if (!stops_.found()) write(calls_.add(stops_.rest()));
  }
  write(calls_.end());
  openai::Choice piece = take_piece();
  using generate::Finish;
  const bool is_stop =
      stops_.found() || generation.finish == Finish::kStop || generation.finish == Finish::kLoop;
  piece.finish_reason = !is_stop ? "length" : calls_.has_calls() ? "tool_calls" : "stop";
  if (stops_.found()) piece.stop_reason = stops_.which();
  if (generation.finish == Finish::kLoop) piece.stop_reason = "loop";
  return piece;
}

}  // namespace longhaul::serve
