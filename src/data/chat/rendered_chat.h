// RenderedChat: a conversation as the text that a model reads, and its ids.
//
// Only the template can make special tokens. A special token of the tokenizer (an added token that is marked
// `special`) is recognised where its first and last byte were written by the template and every byte between
// them by the template or by a name (the role of a message, a number: templates write '<|' + role + '|>').
// The same characters in a message are encoded as ordinary text, so that no user can end a turn or begin one
// in the system's name. Added tokens that are not special ("<think>" of many models) are recognised
// everywhere, because what an assistant wrote earlier spells them. Ids are those of transformers whenever no
// message contains the text of a special token.
#pragma once

#include <cstdint>
#include <vector>

#include "data/chat/marked_text.h"
#include "data/tokenizer/tokenizer.h"

namespace longhaul::data::chat {

// Bytes [begin, end) of a rendered text.
struct ByteRange {
  size_t begin = 0, end = 0;
  bool operator==(const ByteRange&) const = default;
};

struct RenderedChat {
  MarkedText text;
  // Text that the assistant wrote, in order: what stands in the template's {% generation %} blocks. Empty
  // when the template has none.
  std::vector<ByteRange> written;
};

enum class SpecialText {
  kFromTemplate,  // as said above
  kAnywhere,      // also where a message spells a special token, as transformers does
};

struct EncodedChat {
  std::vector<int32_t> ids;
  std::vector<bool> written;  // per id: the token begins in a range of RenderedChat::written
};

// The ids of the text. The template writes the tokens that begin a text itself, so none is added.
std::vector<int32_t> encode(const RenderedChat& chat, const Tokenizer& tokenizer,
                            SpecialText special = SpecialText::kFromTemplate);

// The ids with what the assistant wrote, for fine-tuning. No word goes over a place where a written range
// begins or ends, because the prompt ends there when the model writes: ids differ from those of encode() at
// most at these places.
EncodedChat encode_written(const RenderedChat& chat, const Tokenizer& tokenizer,
                           SpecialText special = SpecialText::kFromTemplate);

}  // namespace longhaul::data::chat
