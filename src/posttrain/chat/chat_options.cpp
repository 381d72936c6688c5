#include "posttrain/chat/chat_options.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/path_text.h"
#include "base/text/text.h"
#include "recipe/options/option.h"

namespace longhaul::posttrain {

namespace fs = std::filesystem;
using data::chat::ChatFormat;
using nlohmann::ordered_json;

namespace {

constexpr const char* kOwnTemplate = "chat_template.jinja";  // of a run folder (data/chat/chat_format.h)

// docs/examples/chatml.jinja without its comment.
constexpr std::string_view kChatMl =
    R"({%- for message in messages -%}
{%- if message.role == "assistant" -%}
{{ "<|im_start|>assistant\n" }}{% generation %}{{ message.content }}{{ "<|im_end|>" }}{% endgeneration %}{{ "\n" }}
{%- else -%}
{{ "<|im_start|>" ~ message.role ~ "\n" ~ message.content ~ "<|im_end|>\n" }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ "<|im_start|>assistant\n" }}{%- endif -%}
)";

ordered_json read_variables(const std::string& text) {
  if (text.empty()) return ordered_json::object();
  ordered_json json = ordered_json::parse(text, nullptr, false);
  if (json.is_object()) return json;
  throw Error({.code = ExitCode::kUsage,
               .what = "variables of the chat template cannot be read",
               .expected = "a JSON object",
               .found = brief(text),
               .where = "chat.variables",
               .hint = R"(chat.variables='{"enable_thinking": false}')"});
}

// The format of a run folder, or of a folder of a published model.
std::optional<ChatFormat> format_in(const fs::path& folder) {
  if (folder.empty() || !fs::exists(folder)) return std::nullopt;
  auto format = ChatFormat::of_run(folder);
  return format ? format : ChatFormat::of_folder(folder);
}

bool carried_along(const fs::path& folder) {
  return fs::exists(folder / "config.json") || !fs::exists(folder / kOwnTemplate);
}

ChatFormat named_format(const std::string& name, const fs::path& beside) {
  if (const std::string_view source = built_in_template(name); !source.empty())
    return ChatFormat::of_text(std::string(source), name, beside);
  const fs::path file = path_of_text(name);
  if (fs::exists(file)) return ChatFormat::of_file(file, beside);
  throw Error({.code = ExitCode::kUsage,
               .what = "there is no such chat template",
               .expected = "a Jinja file, or the name of a built-in template: chatml",
               .found = name,
               .where = "chat.template",
               .hint = "chat.template=chatml"});
}

}  // namespace

std::string_view built_in_template(const std::string& name) {
  return name == "chatml" ? kChatMl : std::string_view();
}

void declare_chat(recipe::OptionSet& set, recipe::OutsideOptions& outside) {
  set.add("chat.template", outside.text("chat.template", ""),
          "Jinja file of the chat template, or the built-in one \"chatml\"; empty: the template of the model "
          "that the run starts from.")
      .path();
  set.add("chat.loss_on", outside.text("chat.loss_on", "answers"),
          "Which tokens are learnt: all answers of the assistant, the last one of a conversation, or the "
          "whole text.")
      .one_of({"answers", "last_answer", "all"});
  set.add("chat.too_long", outside.text("chat.too_long", "drop"),
          "What becomes of a sample that is longer than train.sequence: it is left out, or its end is cut "
          "off.")
      .one_of({"drop", "cut"});
  set.add("chat.system", outside.text("chat.system", ""),
          "The system's text of conversations that have none; empty: they stay without.");
  set.add("chat.variables", outside.text("chat.variables", ""),
          "What the template is told beside the messages, as a JSON object: '{\"enable_thinking\": false}'.");
  set.add("chat.new_tokens", outside.text("chat.new_tokens", ""),
          "Special tokens, divided by commas, that the tokenizer gets where it lacks them: "
          "\"<|im_start|>,<|im_end|>\".");
}

ChatOptions ChatOptions::of(const recipe::Recipe& recipe) {
  const recipe::OutsideOptions& given = recipe.outside;
  const std::string& learnt = given.text("chat.loss_on");
  ChatOptions options{.format = given.text("chat.template"),
                      .learnt = learnt == "all"           ? LearntPart::kAll
                                : learnt == "last_answer" ? LearntPart::kLastAnswer
                                                          : LearntPart::kAnswers,
                      .cut_too_long = given.text("chat.too_long") == "cut",
                      .system = given.text("chat.system"),
                      .variables = read_variables(given.text("chat.variables")),
                      .new_tokens = {}};
  for (const std::string_view token : recipe::split_at_commas(given.text("chat.new_tokens")))
    options.new_tokens.emplace_back(token);
  return options;
}

FoundFormat find_format(const ChatOptions& options, const fs::path& run, const fs::path& from) {
  if (!options.format.empty()) {
    ChatFormat format = named_format(options.format, from.empty() ? run : from);
    return {format, format.chat_template().source()};
  }
  for (const fs::path& folder : {run, from}) {
    if (const auto format = format_in(folder))
      return {*format, carried_along(folder) ? "" : format->chat_template().source()};
  }
  throw Error(
      {.code = ExitCode::kUsage,
       .what = "no chat template says how a conversation is written",
       .expected = "a template of the model that the run starts from (--from), or one named in the recipe",
       .found = from.empty() ? "a model that is trained from nothing, and no chat.template"
                             : "none in " + from.string(),
       .where = "chat.template",
       .hint = "chat.template=chatml, or the path of a Jinja file"});
}

}  // namespace longhaul::posttrain
