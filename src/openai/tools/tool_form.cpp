#include "openai/tools/tool_form.h"

#include "base/error.h"

namespace longhaul::openai {

using nlohmann::ordered_json;

ToolForm tool_form_of(const data::chat::ChatFormat& format) {
  const ordered_json schema = {{"type", "object"}, {"properties", {{"zkey", {{"type", "string"}}}}}};
  const ordered_json call = {{"name", "zname"}, {"arguments", {{"zkey", "zvalue"}}}};
  data::chat::ChatInput input;
  input.tools = {{{"type", "function"},
                  {"function", {{"name", "zname"}, {"description", "z"}, {"parameters", schema}}}}};
  input.messages = {{{"role", "user"}, {"content", "a"}},
                    {{"role", "assistant"},
                     {"content", ""},
                     {"tool_calls", {{{"id", "call00001"}, {"type", "function"}, {"function", call}}}}}};
  input.add_generation_prompt = false;
  std::string text;
  try {
    text = format.render(input).text.bytes();
  } catch (const Error&) {  // a template that knows no tools
    return ToolForm::kNone;
  }
  const size_t value = text.rfind("zvalue");
  if (value == std::string::npos) return ToolForm::kNone;
  const size_t name = text.rfind("zname", value);
  if (name == std::string::npos) return ToolForm::kNone;
  const std::string_view between = std::string_view(text).substr(name, value - name);
  const bool is_json = between.find("\"zkey\"") != std::string_view::npos;
  const size_t tag = text.rfind(kCallBegins, name), list = text.rfind(kListBegins, name);
  constexpr size_t kNear = 64;  // bytes from the beginning of a call to its name
  if (is_json && tag != std::string::npos && name - tag < kNear) return ToolForm::kTagged;
  if (is_json && list != std::string::npos && name - list < kNear) return ToolForm::kListed;
  if (is_json && between.find("\"parameters\"") != std::string_view::npos) return ToolForm::kBare;
  return ToolForm::kNone;
}

std::string_view arguments_name(ToolForm form) {
  return form == ToolForm::kBare ? "parameters" : "arguments";
}

void open_arguments(ordered_json& messages) {
  if (!messages.is_array()) return;
  for (ordered_json& message : messages) {
    if (!message.is_object() || !message.contains("tool_calls") || !message["tool_calls"].is_array())
      continue;
    for (ordered_json& call : message["tool_calls"]) {
      if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
      ordered_json& function = call["function"];
      if (!function.contains("arguments") || !function["arguments"].is_string()) continue;
      ordered_json opened =
          ordered_json::parse(function["arguments"].get_ref<const std::string&>(), nullptr, false);
      if (opened.is_object()) function["arguments"] = std::move(opened);
    }
  }
}

}  // namespace longhaul::openai
