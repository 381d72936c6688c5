#include "data/chat/chat_template.h"

#include <chrono>

#include "base/text/utf8.h"
#include "data/chat/evaluator.h"

namespace longhaul::data::chat {

struct ChatTemplate::Parsed {
  std::string source, where;
  TemplateLimits limits;
  Statements statements;
  bool generation = false;
};

namespace {

ErrorFields fields_of(const Failure& failure, const std::string& where, int line, std::string expected) {
  return {.code = ExitCode::kData,
          .what = failure.raised ? "the chat template refuses the conversation"
                                 : "the chat template cannot be used",
          .expected = std::move(expected),
          .found = failure.what,
          .where = line > 0 ? fmt::format("{}:{}", where, line) : where,  // 0: before the template runs
          .hint = failure.raised
                      ? ""
                      : "docs/guides/chat.md says what templates may do; --template FILE takes another one"};
}

std::tm local_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm made{};
  localtime_r(&now, &made);
  return made;
}

// Messages, where roles are names and the last content is what is to be continued.
Value messages_value(const ChatInput& input, Budget& budget) {
  std::vector<Value> messages;
  if (!input.messages.is_array()) fail("messages are a list of objects, not {}", input.messages.type_name());
  for (size_t i = 0; i < input.messages.size(); ++i) {
    const auto& message = input.messages[i];
    if (!message.is_object()) fail("message {} is no object, but {}", i, message.type_name());
    const bool continued = input.continue_final_message && i + 1 == input.messages.size();
    std::vector<std::pair<Value, Value>> items;
    for (const auto& [key, value] : message.items()) {
      const Mark mark = key == "role"                   ? Mark::kName
                        : continued && key == "content" ? Mark::kContinued
                                                        : Mark::kData;
      items.emplace_back(from_json(key, Mark::kData, budget), from_json(value, mark, budget));
    }
    messages.push_back(make_dict(std::move(items), budget));
  }
  return make_list(std::move(messages), budget);
}

void set_variables(const ChatInput& input, Evaluator& evaluator) {
  Scope& globals = evaluator.globals();
  Budget& budget = evaluator.budget();
  for (const auto& [name, text] : input.special_tokens) globals.set(name, MarkedText(text, Mark::kTemplate));
  globals.set("messages", messages_value(input, budget));
  globals.set("tools", from_json(input.tools, Mark::kData, budget));
  globals.set("documents", from_json(input.documents, Mark::kData, budget));
  globals.set("add_generation_prompt", input.add_generation_prompt && !input.continue_final_message);
  if (input.variables.is_null()) return;
  if (!input.variables.is_object())
    fail("further variables are an object, not {}", input.variables.type_name());
  for (const auto& [name, value] : input.variables.items())
    globals.set(name, from_json(value, Mark::kData, budget));
}

void end_with_content(MarkedText& text) {
  for (size_t size = text.size(); size > 0; --size) {
    if (text.mark(size - 1) != Mark::kContinued) continue;
    return text.cut_after(size);
  }
  fail("the last message is to be continued, and the template does not write its content");
}

}  // namespace

ChatTemplate ChatTemplate::parse(std::string source, const std::string& where, const TemplateLimits& limits) {
  auto parsed = std::make_shared<Parsed>();
  parsed->where = where;
  parsed->limits = limits;
  int line = 1;
  try {
    if (static_cast<int64_t>(source.size()) > limits.source_bytes)
      fail("it has more than {} bytes", limits.source_bytes);
    if (!valid_utf8(source)) fail("it is not UTF-8");
    parsed->statements = parse_template(source, parsed->limits, line, parsed->generation);
  } catch (const Failure& failure) {
    throw Error(fields_of(failure, where, line, "a Jinja template for conversations"));
  }
  parsed->source = std::move(source);
  return ChatTemplate(std::move(parsed));
}

RenderedChat ChatTemplate::render(const ChatInput& input) const {
  Evaluator evaluator(parsed_->limits, input.now ? *input.now : local_now());
  try {
    add_functions(evaluator);
    set_variables(input, evaluator);
    RenderedChat rendered{.text = evaluator.run(parsed_->statements), .written = {}};
    if (input.continue_final_message) end_with_content(rendered.text);
    for (size_t at = 0; at < rendered.text.size(); ++at) {
      if (!rendered.text.written(at)) continue;
      if (rendered.written.empty() || rendered.written.back().end != at) rendered.written.push_back({at, at});
      rendered.written.back().end = at + 1;
    }
    return rendered;
  } catch (const Failure& failure) {
    if (failure.raised) throw ChatRefused(fields_of(failure, parsed_->where, evaluator.line(), ""));
    throw Error(fields_of(failure, parsed_->where, evaluator.line(), ""));
  }
}

const std::string& ChatTemplate::source() const { return parsed_->source; }
bool ChatTemplate::marks_generation() const { return parsed_->generation; }
bool ChatTemplate::mentions(const std::string& name) const {
  return parsed_->source.find(name) != std::string::npos;
}

}  // namespace longhaul::data::chat
