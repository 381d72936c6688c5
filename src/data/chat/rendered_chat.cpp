#include "data/chat/rendered_chat.h"

namespace longhaul::data::chat {
namespace {

// The template wrote the ends of the bytes, and nobody but it and names what is between them.
bool from_template(const MarkedText& text, size_t begin, size_t end) {
  if (text.mark(begin) != Mark::kTemplate || text.mark(end - 1) != Mark::kTemplate) return false;
  for (size_t at = begin; at < end; ++at) {
    if (text.mark(at) != Mark::kTemplate && text.mark(at) != Mark::kName) return false;
  }
  return true;
}

Tokenizer::CutIds encode_text(const MarkedText& text, const Tokenizer& tokenizer, SpecialText special,
                              const std::vector<size_t>& cuts) {
  const bool anywhere = special == SpecialText::kAnywhere;
  return tokenizer.encode_where(
      text.bytes(), [&](size_t begin, size_t end) { return anywhere || from_template(text, begin, end); },
      cuts);
}

}  // namespace

std::vector<int32_t> encode(const RenderedChat& chat, const Tokenizer& tokenizer, SpecialText special) {
  return encode_text(chat.text, tokenizer, special, {}).ids;
}

EncodedChat encode_written(const RenderedChat& chat, const Tokenizer& tokenizer, SpecialText special) {
  std::vector<size_t> cuts;
  for (const ByteRange& range : chat.written) cuts.insert(cuts.end(), {range.begin, range.end});
  Tokenizer::CutIds encoded = encode_text(chat.text, tokenizer, special, cuts);
  EncodedChat made{.ids = std::move(encoded.ids), .written = {}};
  made.written.resize(made.ids.size());
  for (size_t cut = 0; cut + 1 < cuts.size(); cut += 2) {
    for (size_t id = encoded.before_cut[cut]; id < encoded.before_cut[cut + 1]; ++id) made.written[id] = true;
  }
  return made;
}

}  // namespace longhaul::data::chat
