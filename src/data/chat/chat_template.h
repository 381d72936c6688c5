// ChatTemplate: the Jinja template that a published model brings along, which writes a conversation as the
// text that the model reads. It renders what transformers' apply_chat_template renders (trim_blocks and
// lstrip_blocks on, one line end at the end dropped, no escaping), byte for byte; syntax.h has the grammar,
// docs/guides/chat.md lists filters, tests and methods. Nothing in a template is trusted: it can reach
// neither files nor the program, and steps, text and depth are bounded (TemplateLimits), so that one that
// loops or recurses ends with an error.
//
//   const ChatTemplate chat = ChatTemplate::parse(text, "chat_template.jinja");
//   const RenderedChat rendered = chat.render({.messages = messages, .special_tokens = {{"bos_token",
//       "<s>"}}});
//   const std::vector<int32_t> ids = encode(rendered, tokenizer);
//
// Immutable after parsing and cheap to copy; render() is thread-safe. Errors are kData with file and line; an
// error that the template itself raises (raise_exception) is a ChatRefused.
#pragma once

#include <ctime>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "data/chat/rendered_chat.h"

namespace longhaul::data::chat {

struct TemplateLimits {
  int64_t source_bytes = 1 << 20;   // of a template
  int64_t steps = 10'000'000;       // nodes evaluated, list entries made
  int64_t text_bytes = 512 << 20;   // of all texts made on the way
  int64_t output_bytes = 64 << 20;  // of one text
  int64_t depth = 400;              // nested statements, expressions and calls
  int64_t nested_values = 200;      // lists in lists, of a conversation too
};

struct ChatInput {
  // A list of objects with "role" and "content" (text, or a list of {"type": "text", "text": …}), and what
  // else the template reads: "tool_calls", "reasoning_content", "name".
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  nlohmann::ordered_json tools = nullptr;      // a list of JSON schemas of functions; null: none
  nlohmann::ordered_json documents = nullptr;  // a list of {"title", "text"}; null: none
  // Further variables, an object: {"enable_thinking": false}. They win over special tokens of the same name.
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  bool add_generation_prompt = true;  // ends with what begins the assistant's turn
  // ends where the last message's content ends, so that the model continues it
  bool continue_final_message = false;
  std::map<std::string, std::string> special_tokens = {};  // "bos_token" → "<s>" (ChatFormat reads them)
  std::optional<std::tm> now = std::nullopt;               // for strftime_now; none: the local time
};

// The template refuses the conversation: raise_exception was called, for example because roles do not
// alternate. fields().found is its message. A server answers it as a client's mistake.
class ChatRefused : public Error {
 public:
  using Error::Error;
};

class ChatTemplate {
 public:
  static ChatTemplate parse(std::string source, const std::string& where, const TemplateLimits& limits = {});

  RenderedChat render(const ChatInput& input) const;
  const std::string& source() const;
  bool marks_generation() const;  // the template has {% generation %} blocks
  // the name stands in the template ("tools", "enable_thinking")
  bool mentions(const std::string& name) const;

 private:
  struct Parsed;
  explicit ChatTemplate(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}
  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace longhaul::data::chat
