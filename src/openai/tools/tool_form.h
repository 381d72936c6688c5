// How a model writes that it calls a tool. Every template has its own form; it is found by rendering a
// conversation with a call and looking at how the call came out.
//
//   kTagged   <tool_call>\n{"name": "f", "arguments": {…}}\n</tool_call>     Hermes, Qwen2.5, Qwen3
//   kListed   [TOOL_CALLS] [{"name": "f", "arguments": {…}}]                  Mistral
//   kBare     {"name": "f", "parameters": {…}}, and nothing else              Llama 3
//   kNone     another one: what the model writes stays text
#pragma once

#include <string_view>

#include "data/chat/chat_format.h"

namespace longhaul::openai {

enum class ToolForm { kNone, kTagged, kListed, kBare };

inline constexpr std::string_view kCallBegins = "<tool_call>", kCallEnds = "</tool_call>";
inline constexpr std::string_view kListBegins = "[TOOL_CALLS]";

ToolForm tool_form_of(const data::chat::ChatFormat& format);
// The member that holds the arguments: "parameters" for kBare, else "arguments".
std::string_view arguments_name(ToolForm form);

// Arguments of calls in earlier messages as objects: clients send them as a text that holds JSON, and
// templates write objects as JSON. Texts that hold no object stay.
void open_arguments(nlohmann::ordered_json& messages);

}  // namespace longhaul::openai
