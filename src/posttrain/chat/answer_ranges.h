// Which part of a rendered conversation is learnt. A template with {% generation %} blocks says so itself.
// For any other, the text of each answer is found by rendering the beginning of the conversation: an answer
// begins where the conversation before it ends with the prompt of the assistant, and ends where the
// conversation up to it ends, with the first special token that the template writes after the content. Both
// must be beginnings of the whole text; a template that writes earlier messages differently later on is
// refused.
#pragma once

#include "data/chat/chat_format.h"
#include "posttrain/chat/chat_sample.h"

namespace longhaul::posttrain {

enum class LearntPart { kAnswers, kLastAnswer, kAll };

struct TemplateUse {
  const data::chat::ChatFormat& format;
  const data::Tokenizer& tokenizer;
  LearntPart learnt = LearntPart::kAnswers;
  // told to the template beside the messages
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
};

// The conversation as text, with `written` set to what is learnt. Throws BadSample where the template refuses
// the conversation, drops an answer, or writes the beginning of the conversation differently when more
// follows.
data::chat::RenderedChat render_learnt(const ChatSample& sample, const TemplateUse& use);

}  // namespace longhaul::posttrain
