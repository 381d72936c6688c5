#include "openai/request.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/number.h"
#include "openai/request_fields.h"

namespace longhaul::openai {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 30;

void read_bias(RequestFields& fields, TextOptions& options) {
  if (!fields.has("logit_bias")) return;
  const nlohmann::json& biases = fields.at("logit_bias");
  if (!biases.is_object() || std::ssize(biases) > kMostBiases)
    fields.refuse("logit_bias", fmt::format("an object of at most {} token ids with numbers", kMostBiases),
                  biases.type_name());
  for (const auto& [key, value] : biases.items()) {
    const int64_t id = parse_number<int64_t>(key).value_or(-1);
    if (id < 0) fields.refuse("logit_bias", "token ids as keys", "'" + key + "'");
    if (!value.is_number() || !(value.get<double>() >= -100 && value.get<double>() <= 100))
      fields.refuse("logit_bias", "numbers from -100 to 100", value.dump());
    options.logit_bias.emplace_back(id, value.get<double>());
  }
}

void read_stop(RequestFields& fields, TextOptions& options) {
  fields.integers("stop_token_ids", kMostStopIds, options.stop_token_ids);
  fields.flag("ignore_eos", options.ignore_eos);
  fields.flag("include_stop_str_in_output", options.keeps_stop);
  if (!fields.has("stop")) return;
  const nlohmann::json& stop = fields.at("stop");
  const nlohmann::json list = stop.is_string() ? nlohmann::json::array({stop}) : stop;
  if (!list.is_array() || list.size() > kMostStops) {
    fields.refuse("stop", fmt::format("a string, or a list of at most {}", kMostStops),
                  list.is_array() ? fmt::format("a list of {}", list.size()) : list.type_name());
  }
  for (const nlohmann::json& each : list) {
    if (!each.is_string()) fields.refuse("stop", "strings", each.type_name());
    const auto& text = each.get_ref<const std::string&>();
    if (text.empty() || text.size() > kLongestStop)
      fields.refuse("stop", fmt::format("strings of 1 to {} bytes", kLongestStop),
                    fmt::format("one of {}", text.size()));
    options.stop.push_back(text);
  }
}

void read_stream(RequestFields& fields, TextOptions& options) {
  fields.flag("stream", options.stream);
  if (!fields.has("stream_options")) return;
  const nlohmann::json& wanted = fields.at("stream_options");
  if (!wanted.is_object()) fields.refuse("stream_options", "an object", wanted.type_name());
  if (!options.stream)
    throw ApiError(400, "'stream_options' is only allowed with 'stream': true.", "stream_options",
                   "invalid_value");
  const auto usage = wanted.find("include_usage");
  if (usage != wanted.end() && usage->is_boolean()) options.stream_usage = usage->get<bool>();
}

void read_form(RequestFields& fields, TextOptions& options) {
  const nlohmann::ordered_json format = fields.in_order("response_format");
  if (format.is_null()) return;
  const std::string name = "response_format";
  if (!format.is_object() || !format.contains("type"))
    fields.refuse(name, "an object with a \"type\"", format.type_name());
  const nlohmann::ordered_json& type = format["type"];
  if (type == "text") return;
  if (type == "json_object") {
    options.form = TextForm::kJsonObject;
    return;
  }
  if (type != "json_schema")
    fields.refuse(name + ".type", "\"text\", \"json_object\" or \"json_schema\"", type.dump().substr(0, 60));
  const auto wrapped = format.find("json_schema");
  if (wrapped == format.end() || !wrapped->is_object() || !wrapped->contains("schema"))
    fields.refuse(name + ".json_schema", "an object with a \"schema\"",
                  wrapped == format.end() ? "nothing" : wrapped->type_name());
  options.form = TextForm::kJsonSchema;
  options.schema = (*wrapped)["schema"];
}

// What both kinds of texts have.
void read_options(RequestFields& fields, TextOptions& options) {
  fields.integer("min_tokens", 0, kMostTokens, options.min_tokens);
  fields.number("temperature", 0, 2, options.temperature);
  fields.number("top_p", 0, 1, options.top_p);
  if (options.top_p == 0) options.top_p = 1e-9;  // the likeliest token alone
  fields.number("min_p", 0, 1, options.min_p);
  int64_t top_k = 0;
  fields.integer("top_k", -1, kMostTokens, top_k);  // -1: all, as elsewhere
  options.top_k = std::max<int64_t>(0, top_k);
  if (fields.has("repetition_penalty"))
    fields.number("repetition_penalty", 1e-3, 1e3, options.repetition_penalty);
  fields.number("frequency_penalty", -2, 2, options.frequency_penalty);
  fields.number("presence_penalty", -2, 2, options.presence_penalty);
  read_bias(fields, options);
  if (fields.has("seed")) {
    int64_t seed = 0;
    fields.integer("seed", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), seed);
    options.seed = static_cast<uint64_t>(seed);
  }
  fields.integer("n", 1, kMostChoices, options.n);
  read_stop(fields, options);
  fields.integer("loop_tokens", 0, kMostTokens, options.loop_tokens);
  fields.flag("experts", options.experts);
  read_stream(fields, options);
  read_form(fields, options);
  fields.pass_over({"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
                    "prompt_cache_retention"});
}

void read_most(RequestFields& fields, const std::string& name, TextOptions& options) {
  if (!fields.has(name)) return;
  int64_t most = 0;
  fields.integer(name, 1, kMostTokens, most);
  options.max_tokens = most;
}

Prompt prompt_of(const std::string& field, const nlohmann::json& value) {
  if (value.is_string()) return {value.get<std::string>(), {}};
  Prompt prompt;
  for (const nlohmann::json& id : value) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 ||
        id.get<int64_t>() > std::numeric_limits<int32_t>::max())
      RequestFields::refuse(field, "token ids, which are integers from 0", id.dump().substr(0, 60));
    prompt.ids.push_back(id.get<int64_t>());
  }
  return prompt;
}

// A text, a list of ids, or a list of either.
std::vector<Prompt> prompts_of(RequestFields& fields, const std::string& field) {
  if (!fields.has(field))
    throw ApiError(400, "Missing required parameter: '" + field + "'.", field, "missing_required_parameter");
  const nlohmann::json& value = fields.at(field);
  if (value.is_string()) return {prompt_of(field, value)};
  if (!value.is_array() || value.empty())
    fields.refuse(field, "a string, token ids, or a list of these",
                  value.empty() ? "an empty list" : value.type_name());
  if (value.front().is_number()) return {prompt_of(field, value)};
  if (std::ssize(value) > kMostPrompts)
    fields.refuse(field, fmt::format("at most {} prompts", kMostPrompts), std::to_string(value.size()));
  std::vector<Prompt> prompts;
  for (const nlohmann::json& each : value) {
    if (!each.is_string() && !each.is_array())
      fields.refuse(field, "strings, or lists of token ids", each.type_name());
    prompts.push_back(prompt_of(field, each));
  }
  return prompts;
}

}  // namespace

CompletionRequest read_completion_request(std::string_view body) {
  RequestFields fields(body);
  CompletionRequest request;
  fields.text("model", request.model);
  request.options.max_tokens = 16;  // as OpenAI's
  read_most(fields, "max_tokens", request.options);
  read_options(fields, request.options);
  request.prompts = prompts_of(fields, "prompt");
  fields.flag("echo", request.echo);
  if (fields.has("logprobs")) {
    request.options.logprobs = true;
    fields.integer("logprobs", 0, kMostTopTokens, request.options.top_logprobs);
  }
  if (request.echo && request.options.logprobs)
    throw ApiError(400, "'echo' with 'logprobs' is not supported: probabilities are those of new tokens.",
                   "echo", "unsupported_parameter");
  if (fields.has("best_of")) {
    int64_t best_of = 1;
    fields.integer("best_of", 1, kMostChoices, best_of);
    if (best_of != request.options.n) fields.refuse("best_of", "the value of 'n'", std::to_string(best_of));
  }
  fields.only("suffix", "", "texts are continued at their end only");
  fields.finish();
  return request;
}

namespace {

// Of each tool its name, where tools are what OpenAI calls tools.
std::vector<std::string> names_of(RequestFields& fields, const nlohmann::ordered_json& tools) {
  std::vector<std::string> names;
  for (const auto& tool : tools) {
    const bool good = tool.is_object() && tool.contains("function") && tool["function"].is_object() &&
                      tool["function"].contains("name") && tool["function"]["name"].is_string();
    if (!good)
      fields.refuse("tools", "{\"type\": \"function\", \"function\": {\"name\": …, \"parameters\": …}}",
                    tool.dump().substr(0, 80));
    names.push_back(tool["function"]["name"].get<std::string>());
  }
  return names;
}

void read_tool_choice(RequestFields& fields, CompletionRequest& request) {
  if (!fields.has("tool_choice")) return;
  const nlohmann::json& choice = fields.at("tool_choice");
  if (choice == "auto") return;
  if (choice == "none") {
    request.tools = nullptr;
    return;
  }
  if (request.tools.is_null() || request.tools.empty())
    throw ApiError(400, "'tool_choice' asks for a call, and there are no 'tools'.", "tool_choice",
                   "invalid_value");
  const std::vector<std::string> names = names_of(fields, request.tools);
  if (choice == "required") {
    request.tool_choice = ToolChoice::kRequired;
  } else {
    const bool named = choice.is_object() && choice.contains("function") && choice["function"].is_object() &&
                       choice["function"].contains("name") && choice["function"]["name"].is_string();
    if (!named)
      fields.refuse(
          "tool_choice",
          "\"none\", \"auto\", \"required\" or {\"type\": \"function\", \"function\": {\"name\": …}}",
          choice.dump().substr(0, 80));
    request.tool_choice = ToolChoice::kNamed;
    request.tool = choice["function"]["name"].get<std::string>();
    if (std::ranges::find(names, request.tool) == names.end())
      fields.refuse("tool_choice", "the name of one of the tools", "'" + request.tool + "'");
  }
  if (request.options.form != TextForm::kAny)
    throw ApiError(400, "A text is held to 'response_format' or to a call of a tool, not to both.",
                   "tool_choice", "invalid_value");
}

}  // namespace

CompletionRequest read_chat_request(std::string_view body) {
  RequestFields fields(body);
  CompletionRequest request;
  request.chat = true;
  fields.text("model", request.model);
  read_most(fields, "max_tokens", request.options);
  read_most(fields, "max_completion_tokens", request.options);  // the newer name wins
  read_options(fields, request.options);
  fields.flag("logprobs", request.options.logprobs);
  fields.integer("top_logprobs", 0, kMostTopTokens, request.options.top_logprobs);
  if (request.options.top_logprobs > 0 && !request.options.logprobs)
    throw ApiError(400, "'top_logprobs' is only allowed with 'logprobs': true.", "top_logprobs",
                   "invalid_value");
  request.messages = fields.in_order("messages");
  if (!request.messages.is_array() || request.messages.empty())
    fields.refuse("messages", "a list of at least one message",
                  request.messages.is_null() ? "nothing" : request.messages.type_name());
  for (const auto& message : request.messages) {
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
      fields.refuse("messages", "objects with a \"role\"", message.type_name());
  }
  request.tools = fields.in_order("tools");
  if (!request.tools.is_null() && !request.tools.is_array())
    fields.refuse("tools", "a list", request.tools.type_name());
  read_tool_choice(fields, request);
  request.template_variables = fields.in_order("chat_template_kwargs");
  if (request.template_variables.is_null()) request.template_variables = nlohmann::ordered_json::object();
  if (!request.template_variables.is_object())
    fields.refuse("chat_template_kwargs", "an object", request.template_variables.type_name());
  if (fields.has("reasoning_effort"))
    request.template_variables["reasoning_effort"] = fields.at("reasoning_effort");
  fields.flag("add_generation_prompt", request.add_generation_prompt);
  fields.flag("continue_final_message", request.continue_final_message);
  fields.only("modalities", nlohmann::json::array({"text"}), "the model writes text alone");
  fields.flag("parallel_tool_calls", request.parallel_tool_calls);
  fields.finish();
  return request;
}

TokenizeRequest read_tokenize_request(std::string_view body) {
  RequestFields fields(body);
  TokenizeRequest request;
  fields.text("model", request.model);
  if (!fields.has("prompt"))
    throw ApiError(400, "Missing required parameter: 'prompt'.", "prompt", "missing_required_parameter");
  fields.text("prompt", request.prompt);
  fields.flag("add_special_tokens", request.add_special_tokens);
  fields.finish();
  return request;
}

DetokenizeRequest read_detokenize_request(std::string_view body) {
  RequestFields fields(body);
  DetokenizeRequest request;
  fields.text("model", request.model);
  if (!fields.has("tokens"))
    throw ApiError(400, "Missing required parameter: 'tokens'.", "tokens", "missing_required_parameter");
  fields.integers("tokens", static_cast<int64_t>(kMostJsonValues), request.tokens);
  fields.finish();
  return request;
}

EmbeddingsRequest read_embeddings_request(std::string_view body) {
  RequestFields fields(body);
  EmbeddingsRequest request;
  fields.text("model", request.model);
  request.inputs = prompts_of(fields, "input");
  std::string form = "float";
  fields.text("encoding_format", form);
  if (form != "float" && form != "base64")
    fields.refuse("encoding_format", "\"float\" or \"base64\"", "\"" + form.substr(0, 60) + "\"");
  request.base64 = form == "base64";
  if (fields.has("dimensions"))
    throw ApiError(400, "'dimensions' is not supported: vectors are as long as hidden states.", "dimensions",
                   "unsupported_parameter");
  fields.pass_over({"user"});
  fields.finish();
  return request;
}

}  // namespace longhaul::openai
