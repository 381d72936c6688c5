#include "data/chat/chat_format.h"

#include <algorithm>
#include <cctype>

#include "base/files/file.h"
#include "base/text/text.h"

namespace longhaul::data::chat {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

namespace {

constexpr int64_t kMostConfigBytes = 64 << 20;  // tokenizer_config.json lists added tokens too
constexpr const char* kTemplateFile = "chat_template.jinja";
constexpr const char* kSpecialTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                          "pad_token", "cls_token", "mask_token"};

[[noreturn]] void refuse(const fs::path& file, const std::string& expected, const std::string& found) {
  throw Error({.code = ExitCode::kData,
               .what = "the chat template of the model cannot be read",
               .expected = expected,
               .found = found,
               .where = file.string(),
               .hint = "mend the file, or name a template with --template FILE"});
}

// An empty object where there is no such file.
ordered_json read_object(const fs::path& file) {
  if (!fs::exists(file)) return ordered_json::object();
  ordered_json json = ordered_json::parse(read_text(file, ExitCode::kData, kMostConfigBytes), nullptr, false);
  if (!json.is_object()) refuse(file, "a JSON object", json.is_discarded() ? "no JSON" : json.type_name());
  return json;
}

ChatTemplate read_template(const fs::path& file) {
  return ChatTemplate::parse(read_text(file, ExitCode::kData, TemplateLimits().source_bytes), file.string());
}

// "chat_template" of a JSON file: a text, or a list of {"name", "template"}.
std::map<std::string, ChatTemplate> templates_of(const ordered_json& field, const fs::path& file) {
  std::map<std::string, ChatTemplate> templates;
  const std::string where = file.string() + "#chat_template";
  if (field.is_string()) {
    templates.emplace("default", ChatTemplate::parse(field.get<std::string>(), where));
    return templates;
  }
  if (!field.is_array())
    refuse(file, "\"chat_template\" as a text, or a list of named ones", field.type_name());
  for (const ordered_json& each : field) {
    const bool good = each.is_object() && each.contains("name") && each["name"].is_string() &&
                      each.contains("template") && each["template"].is_string();
    if (!good)
      refuse(file, "each of \"chat_template\" as {\"name\": …, \"template\": …}",
             each.dump(-1, ' ', false, ordered_json::error_handler_t::replace).substr(0, 80));
    const auto name = each["name"].get<std::string>();
    templates.emplace(
        name, ChatTemplate::parse(each["template"].get<std::string>(), fmt::format("{}/{}", where, name)));
  }
  if (!templates.contains("default"))
    refuse(file, "a template named \"default\" among those of \"chat_template\"", "none");
  return templates;
}

// Each is a text, or an added token with "content".
std::map<std::string, std::string> special_tokens_of(const fs::path& folder) {
  std::map<std::string, std::string> tokens;
  for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const ordered_json json = read_object(folder / file);
    for (const char* name : kSpecialTokens) {
      if (!json.contains(name) || tokens.contains(name)) continue;
      const ordered_json& token = json[name];
      const ordered_json& text = token.is_object() && token.contains("content") ? token["content"] : token;
      if (text.is_string()) tokens.emplace(name, text.get<std::string>());
    }
  }
  return tokens;
}

fs::path published(const fs::path& run) { return run / "published"; }

}  // namespace

std::optional<ChatFormat> ChatFormat::of_folder(const fs::path& folder) {
  ChatFormat format;
  format.special_tokens_ = special_tokens_of(folder);
  if (fs::exists(folder / kTemplateFile)) {
    format.where_ = (folder / kTemplateFile).string();
    format.templates_.emplace("default", read_template(folder / kTemplateFile));
    return format;
  }
  for (const char* name : {"tokenizer_config.json", "chat_template.json"}) {
    const ordered_json json = read_object(folder / name);
    if (!json.contains("chat_template") || json["chat_template"].is_null()) continue;
    format.where_ = (folder / name).string();
    format.templates_ = templates_of(json["chat_template"], folder / name);
    return format;
  }
  return std::nullopt;
}

std::optional<ChatFormat> ChatFormat::of_run(const fs::path& run) {
  if (fs::exists(run / kTemplateFile)) return of_file(run / kTemplateFile, run);
  return fs::exists(published(run)) ? of_folder(published(run)) : std::nullopt;
}

ChatFormat ChatFormat::of_file(const fs::path& file, const fs::path& run) {
  return of_text(read_text(file, ExitCode::kData, TemplateLimits().source_bytes), file.string(), run);
}

ChatFormat ChatFormat::of_text(std::string source, const std::string& where, const fs::path& run) {
  ChatFormat format;
  format.where_ = where;
  format.special_tokens_ = special_tokens_of(fs::exists(published(run)) ? published(run) : run);
  format.templates_.emplace("default", ChatTemplate::parse(std::move(source), where));
  return format;
}

const ChatTemplate& ChatFormat::chat_template(bool with_tools) const {
  const auto found = templates_.find(with_tools && templates_.contains("tool_use") ? "tool_use" : "default");
  return found->second;
}

RenderedChat ChatFormat::render(ChatInput input) const {
  for (const auto& [name, text] : special_tokens_) input.special_tokens.try_emplace(name, text);
  return chat_template(!input.tools.is_null()).render(input);
}

std::optional<int32_t> ChatFormat::end_of_turn(const Tokenizer& tokenizer) const {
  ChatInput input;
  input.messages = {{{"role", "user"}, {"content", "a"}}, {{"role", "assistant"}, {"content", "b"}}};
  input.add_generation_prompt = false;
  try {
    const RenderedChat chat = render(input);
    size_t end = chat.text.size();
    while (end > 0 && chat.text.mark(end - 1) != Mark::kData) --end;
    const RenderedChat rest{.text = chat.text.part(end), .written = {}};
    for (const int32_t id : encode(rest, tokenizer)) {
      if (tokenizer.is_special(id)) return id;
    }
  } catch (const Error&) {  // a template that wants its content in parts, for example
  }
  return std::nullopt;
}

namespace {

[[noreturn]] void refuse_message(const std::string& where, const std::string& expected,
                                 const std::string& found) {
  throw Error({.code = ExitCode::kUsage,
               .what = "a conversation cannot be read",
               .expected = expected,
               .found = found,
               .where = where});
}

void check_content(const ordered_json& content, const std::string& where) {
  if (content.is_null() || content.is_string()) return;
  if (!content.is_array()) refuse_message(where, "a text, null, or a list of parts", content.type_name());
  for (size_t i = 0; i < content.size(); ++i) {
    const ordered_json& part = content[i];
    const std::string at = fmt::format("{}[{}]", where, i);
    if (!part.is_object() || !part.contains("type") || !part["type"].is_string())
      refuse_message(at, "an object with a \"type\"", part.type_name());
    if (part["type"] == "text" && (!part.contains("text") || !part["text"].is_string()))
      refuse_message(at, "a part of type text with \"text\"", "none");
  }
}

}  // namespace

void check_messages(const ordered_json& messages, const std::string& where) {
  if (!messages.is_array() || messages.empty())
    refuse_message(where, "a list of at least one message",
                   messages.is_array() ? "an empty list" : messages.type_name());
  for (size_t i = 0; i < messages.size(); ++i) {
    const ordered_json& message = messages[i];
    const std::string at = fmt::format("{}[{}]", where, i);
    if (!message.is_object())
      refuse_message(at, "an object with \"role\" and \"content\"", message.type_name());
    const std::string role =
        message.contains("role") && message["role"].is_string() ? message["role"].get<std::string>() : "";
    const auto usual = [](unsigned char byte) {
      return std::isalnum(byte) != 0 || byte == '_' || byte == '-';
    };
    if (role.empty() || role.size() > 64 || !std::ranges::all_of(role, usual)) {
      refuse_message(at + ".role", "a role of letters, digits, '_' and '-', such as user",
                     role.empty() ? "none" : brief(role));
    }
    if (!message.contains("content") && !message.contains("tool_calls"))
      refuse_message(at + ".content", "a text, or a list of parts", "none");
    if (message.contains("content")) check_content(message["content"], at + ".content");
  }
}

}  // namespace longhaul::data::chat
