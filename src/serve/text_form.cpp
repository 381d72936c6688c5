#include "serve/text_form.h"

#include <fmt/format.h>

#include "base/error.h"
#include "grammar/json_schema.h"

namespace longhaul::serve {
namespace {

using nlohmann::ordered_json;
using openai::ApiError;
using openai::ToolChoice;
using openai::ToolForm;

std::vector<grammar::CallableTool> callable(const openai::CompletionRequest& request) {
  std::vector<grammar::CallableTool> tools;
  for (const ordered_json& tool : request.tools) {
    const ordered_json& function = tool["function"];
    const auto name = function["name"].get<std::string>();
    if (request.tool_choice == ToolChoice::kNamed && name != request.tool) continue;
    tools.push_back({name, function.contains("parameters") ? function["parameters"] : ordered_json()});
  }
  return tools;
}

std::shared_ptr<grammar::TokenGrammar> grammar_of_calls(const openai::CompletionRequest& request,
                                                        const ModelText& text) {
  // The list's mark is a special token of the models that have that form: no text spells it.
  if (text.tool_form != ToolForm::kTagged && text.tool_form != ToolForm::kBare) {
    throw ApiError(
        400,
        "This model's chat template writes calls of tools in a form that a text cannot be held to: "
        "use 'tool_choice': 'auto'.",
        "tool_choice", "unsupported_value");
  }
  const bool tagged = text.tool_form == ToolForm::kTagged;
  const std::string before = tagged ? std::string(openai::kCallBegins) + "\n" : "";
  const std::string after = tagged ? "\n" + std::string(openai::kCallEnds) : "";
  const bool several = tagged && request.tool_choice == ToolChoice::kRequired && request.parallel_tool_calls;
  const grammar::CallForm form{before, after, openai::arguments_name(text.tool_form), several};
  const std::string name = fmt::format("call {} {} {}", request.tool, several, request.tools.dump());
  return text.grammars->get(name, [&] { return grammar::tool_call_grammar(form, callable(request)); });
}

}  // namespace

std::shared_ptr<grammar::TokenGrammar> grammar_of(const openai::CompletionRequest& request,
                                                  const ModelText& text) {
  const openai::TextOptions& options = request.options;
  const bool calls = request.tool_choice != ToolChoice::kAuto;
  try {
    if (calls) return grammar_of_calls(request, text);
    if (options.form == openai::TextForm::kJsonObject)
      return text.grammars->get("object", [] { return grammar::json_object_grammar(); });
    if (options.form == openai::TextForm::kJsonSchema)
      return text.grammars->get("schema " + options.schema.dump(),
                                [&] { return grammar::json_schema_grammar(options.schema); });
  } catch (const Error& error) {
    if (error.code() != ExitCode::kUsage) throw;
    const ErrorFields& said = error.fields();
    throw ApiError(
        400,
        fmt::format("{}, at {}: expected {}, found {}.", said.what, said.where, said.expected, said.found),
        calls ? "tools" : "response_format", "invalid_value");
  }
  return nullptr;
}

}  // namespace longhaul::serve
