#include "posttrain/chat/chat_sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"
#include "data/chat/chat_format.h"

namespace longhaul::posttrain {

using nlohmann::ordered_json;

namespace {

constexpr const char* kConversations = "conversations";

bool has_text(const ordered_json& row, const char* field) {
  return row.contains(field) && row[field].is_string();
}
bool has_list(const ordered_json& row, const char* field) {
  return row.contains(field) && row[field].is_array();
}

std::string kind_of(const ordered_json& value) {
  if (value.is_null()) return "null";
  return fmt::format("{} ({})", value.type_name(),
                     brief(value.dump(-1, ' ', false, ordered_json::error_handler_t::replace), 40));
}

std::string text_field(const ordered_json& row, const char* field, bool required) {
  if (!row.contains(field) || row[field].is_null()) {
    if (!required) return "";
    throw BadSample("a field is missing", fmt::format("a text \"{}\"", field), "fields " + fields_text(row));
  }
  if (!row[field].is_string())
    throw BadSample("a field is not text", fmt::format("a text \"{}\"", field), kind_of(row[field]));
  return row[field].get<std::string>();
}

ordered_json message(const std::string& role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

// A list of functions, or the JSON of one as a text.
ordered_json tools_of(const ordered_json& row) {
  if (!row.contains("tools") || row["tools"].is_null()) return nullptr;
  ordered_json tools = row["tools"];
  if (tools.is_string()) {
    if (trimmed(tools.get<std::string>()).empty()) return nullptr;
    tools = ordered_json::parse(tools.get<std::string>(), nullptr, false);
  }
  if (!tools.is_array())
    throw BadSample("tools cannot be read", "\"tools\": a list of functions, or its JSON",
                    kind_of(row["tools"]));
  return tools.empty() ? ordered_json(nullptr) : tools;
}

// Templates write arguments as JSON: an object is written once, and the JSON of one would be quoted again.
void read_arguments(ordered_json& message) {
  if (!message.contains("tool_calls") || !message["tool_calls"].is_array()) return;
  for (ordered_json& call : message["tool_calls"]) {
    ordered_json* function = call.is_object() && call.contains("function") ? &call["function"] : &call;
    if (!function->is_object() || !function->contains("arguments") || !(*function)["arguments"].is_string())
      continue;
    const ordered_json arguments =
        ordered_json::parse((*function)["arguments"].get<std::string>(), nullptr, false);
    if (arguments.is_object()) (*function)["arguments"] = arguments;
  }
}

ordered_json openai_messages(const ordered_json& list, const char* field) {
  ordered_json messages = list;
  try {
    data::chat::check_messages(messages, field);
  } catch (const Error& error) {
    throw BadSample("a message cannot be read",
                    fmt::format("{}: {}", error.fields().where, error.fields().expected),
                    error.fields().found);
  }
  for (ordered_json& each : messages) read_arguments(each);
  return messages;
}

// Roles as ShareGPT's files name them.
std::string role_of_sharegpt(const std::string& from) {
  static const std::map<std::string, std::string> roles{{"human", "user"},
                                                        {"user", "user"},
                                                        {"gpt", "assistant"},
                                                        {"chatgpt", "assistant"},
                                                        {"bing", "assistant"},
                                                        {"bard", "assistant"},
                                                        {"assistant", "assistant"},
                                                        {"model", "assistant"},
                                                        {"system", "system"},
                                                        {"tool", "tool"},
                                                        {"observation", "tool"},
                                                        {"function_response", "tool"},
                                                        {"function_call", "function_call"}};
  const auto found = roles.find(from);
  if (found == roles.end())
    throw BadSample("a role is unknown", "human, gpt, system, function_call or observation", brief(from));
  return found->second;
}

ordered_json sharegpt_message(const ordered_json& each) {
  const std::string role = role_of_sharegpt(text_field(each, "from", true));
  const std::string value = text_field(each, "value", true);
  if (role != "function_call") return message(role, value);
  const ordered_json call = ordered_json::parse(value, nullptr, false);
  if (!call.is_object() || !call.contains("name"))
    throw BadSample("a call of a tool cannot be read", R"(the JSON {"name": …, "arguments": …})",
                    brief(value));
  ordered_json calling = message("assistant", "");
  calling["tool_calls"] = ordered_json::array({{{"type", "function"}, {"function", call}}});
  read_arguments(calling);
  return calling;
}

ordered_json sharegpt_messages(const ordered_json& list) {
  const bool own_names =
      std::ranges::all_of(list, [](const ordered_json& m) { return m.is_object() && m.contains("role"); });
  if (own_names && !list.empty()) return openai_messages(list, kConversations);
  ordered_json messages = ordered_json::array();
  for (const ordered_json& each : list) {
    if (!each.is_object())
      throw BadSample("a message cannot be read", "an object with \"from\" and \"value\"", kind_of(each));
    messages.push_back(sharegpt_message(each));
  }
  return messages;
}

ordered_json alpaca_messages(const ordered_json& row) {
  ordered_json messages = ordered_json::array();
  if (row.contains("history") && !row["history"].is_null()) {
    for (const ordered_json& turn : row["history"]) {
      if (!turn.is_array() || turn.size() != 2 || !turn[0].is_string() || !turn[1].is_string())
        throw BadSample("the history cannot be read", "\"history\": a list of [question, answer]",
                        kind_of(turn));
      messages.push_back(message("user", turn[0]));
      messages.push_back(message("assistant", turn[1]));
    }
  }
  const std::string input = text_field(row, "input", false);
  const std::string instruction = text_field(row, "instruction", true);
  messages.push_back(message("user", input.empty() ? instruction : instruction + "\n\n" + input));
  messages.push_back(message("assistant", text_field(row, "output", true)));
  return messages;
}

// answer: the field of what the assistant says.
ordered_json prompted_messages(const ordered_json& row, const char* answer) {
  ordered_json messages = ordered_json::array();
  for (const auto& [field, role] : {std::pair("prompt", "user"), std::pair(answer, "assistant")}) {
    if (!has_list(row, field)) {
      messages.push_back(message(role, text_field(row, field, true)));
      continue;
    }
    for (const ordered_json& each : openai_messages(row[field], field)) messages.push_back(each);
  }
  return messages;
}

double weight_of(const ordered_json& row) {
  if (!row.contains("weight") || row["weight"].is_null()) return 1;
  const ordered_json& weight = row["weight"];
  const double value = weight.is_number() ? weight.get<double>() : -1;
  // Shards hold them in single precision.
  if (!(value >= 0) || !std::isfinite(static_cast<float>(value)))
    throw BadSample("a weight is no weight", "\"weight\": a number of at least 0", kind_of(weight));
  return value;
}

void put_system(ordered_json& messages, const std::string& system) {
  if (system.empty()) return;
  const std::string first = messages.empty() ? "" : messages[0].value("role", "");
  if (first != "system" && first != "developer") messages.insert(messages.begin(), message("system", system));
}

// Text of content, parts joined; none: it has parts that are not text.
std::optional<std::string> text_of_content(const ordered_json& content) {
  if (content.is_null()) return "";
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  for (const ordered_json& part : content) {
    if (part.value("type", "") != "text") return std::nullopt;
    text += part["text"].get<std::string>();
  }
  return text;
}

bool calls_tools(const ordered_json& message) {
  return message.contains("tool_calls") && message["tool_calls"].is_array() && !message["tool_calls"].empty();
}

// The roles that may speak after a message of that role; empty: after the beginning.
std::vector<std::string> allowed_after(const std::string& role, bool called) {
  if (role.empty()) return {"system", "developer", "user"};
  if (role == "system" || role == "developer") return {"user"};
  if (role == "user") return {"assistant"};
  if (role == "tool") return {"tool", "assistant"};
  return {called ? "tool" : "user"};
}

}  // namespace

std::string_view name_of(SampleForm form) {
  constexpr std::string_view kNames[] = {"messages", "sharegpt", "alpaca", "completion", "puzzle", "text"};
  return kNames[static_cast<size_t>(form)];
}

std::string_view fields_of(SampleForm form) {
  constexpr std::string_view kFields[] = {"\"messages\" of role and content",
                                          "\"conversations\" of from and value",
                                          "\"instruction\" and \"output\"",
                                          "\"prompt\" and \"completion\"",
                                          "\"data_source\", \"prompt\" and \"solution\"",
                                          "\"text\""};
  return kFields[static_cast<size_t>(form)];
}

std::optional<SampleForm> form_of(const ordered_json& row) {
  if (!row.is_object()) return std::nullopt;
  if (has_list(row, "messages")) return SampleForm::kMessages;
  if (has_list(row, kConversations)) return SampleForm::kShareGpt;
  if (row.contains("instruction") && row.contains("output")) return SampleForm::kAlpaca;
  if (row.contains("prompt") && row.contains("completion")) return SampleForm::kCompletion;
  if (row.contains("data_source") && has_list(row, "prompt") && row.contains("solution"))
    return SampleForm::kPuzzle;
  if (has_text(row, "text")) return SampleForm::kText;
  return std::nullopt;
}

std::string fields_text(const ordered_json& row) {
  if (!row.is_object()) return kind_of(row);
  std::string names;
  for (const auto& [name, value] : row.items()) names += (names.empty() ? "" : ", ") + brief(name, 40);
  return names.empty() ? "none" : names;
}

void require_conversation(const ordered_json& messages) {
  std::string before;
  bool called = false;
  for (size_t i = 0; i < messages.size(); ++i) {
    const ordered_json& each = messages[i];
    const std::string role = each["role"];
    const std::vector<std::string> allowed = allowed_after(before, called);
    if (std::ranges::find(allowed, role) == allowed.end()) {
      throw BadSample("roles are out of order",
                      fmt::format("{} as message {}, after {}", fmt::join(allowed, " or "), i + 1,
                                  before.empty() ? "nothing" : before),
                      brief(role));
    }
    called = role == "assistant" && calls_tools(each);
    before = role;
    if (role != "assistant") continue;
    const auto text = text_of_content(each.contains("content") ? each["content"] : ordered_json(nullptr));
    if (!text)
      throw BadSample("an answer is not text", fmt::format("message {} of the assistant as text", i + 1),
                      "parts of other types");
    if (trimmed(*text).empty() && !called)
      throw BadSample("an answer is empty", fmt::format("text or calls of tools in message {}", i + 1),
                      "neither");
  }
  if (before != "assistant") {
    throw BadSample("a conversation ends without an answer", "a message of the assistant at the end",
                    before.empty() ? "no message" : "a message of the " + before);
  }
}

ChatSample read_sample(const ordered_json& row, SampleForm form, const std::string& system) {
  if (form_of(row) != form) {
    throw BadSample("a row has another form than its file",
                    std::string(fields_of(form)) + ", as the file's first row has",
                    "fields " + fields_text(row));
  }
  ChatSample sample{.weight = weight_of(row)};
  if (form == SampleForm::kText) {
    sample.text = row["text"].get<std::string>();
    if (sample.text.empty()) throw BadSample("a text is empty", "a text", "none");
    return sample;
  }
  sample.tools = tools_of(row);
  if (form == SampleForm::kMessages) sample.messages = openai_messages(row["messages"], "messages");
  if (form == SampleForm::kShareGpt) sample.messages = sharegpt_messages(row[kConversations]);
  if (form == SampleForm::kAlpaca) sample.messages = alpaca_messages(row);
  if (form == SampleForm::kCompletion) sample.messages = prompted_messages(row, "completion");
  if (form == SampleForm::kPuzzle) sample.messages = prompted_messages(row, "solution");
  put_system(sample.messages, text_field(row, "system", false));
  put_system(sample.messages, system);
  require_conversation(sample.messages);
  return sample;
}

}  // namespace longhaul::posttrain
