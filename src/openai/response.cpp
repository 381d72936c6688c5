#include "openai/response.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "base/text/base64.h"

namespace longhaul::openai {
namespace {

using Json = nlohmann::ordered_json;

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

// What JSON can say: a token that could not be drawn has the lowest number.
double finite(double log_probability) { return std::max(log_probability, -9999.0); }

Json chat_token(const std::string& bytes, double log_probability) {
  Json list = Json::array();
  for (const char byte : bytes) list.push_back(static_cast<int>(static_cast<unsigned char>(byte)));
  return {{"token", bytes}, {"logprob", finite(log_probability)}, {"bytes", list}};
}

Json chat_logprobs(const Choice& choice) {
  Json content = Json::array();
  for (const TokenText& token : choice.tokens) {
    Json each = chat_token(token.bytes, token.log_probability);
    each["top_logprobs"] = Json::array();
    for (const auto& [bytes, log_probability] : token.top)
      each["top_logprobs"].push_back(chat_token(bytes, log_probability));
    content.push_back(each);
  }
  return {{"content", content}, {"refusal", nullptr}};
}

Json completion_logprobs(const Choice& choice) {
  Json tokens = Json::array(), log_probabilities = Json::array(), tops = Json::array(),
       offsets = Json::array();
  int64_t offset = choice.text_offset;
  for (const TokenText& token : choice.tokens) {
    tokens.push_back(token.bytes);
    log_probabilities.push_back(finite(token.log_probability));
    Json top = Json::object();
    for (const auto& [bytes, log_probability] : token.top) top[bytes] = finite(log_probability);
    tops.push_back(top);
    offsets.push_back(offset);
    offset += std::ssize(token.bytes);
  }
  return {{"tokens", tokens},
          {"token_logprobs", log_probabilities},
          {"top_logprobs", tops},
          {"text_offset", offsets}};
}

// Our own: of each token the experts that the model chose before it wrote it.
void add_experts(Json& json, const Choice& choice) {
  if (!choice.with_experts) return;
  Json tokens = Json::array();
  for (const TokenText& token : choice.tokens) {
    Json layers = Json::array();
    for (const auto& [layer, chosen] : token.experts) {
      Json experts = Json::array(), weights = Json::array();
      for (const auto& [expert, weight] : chosen) {
        experts.push_back(expert);
        weights.push_back(weight);
      }
      layers.push_back({{"layer", layer}, {"experts", experts}, {"weights", weights}});
    }
    tokens.push_back({{"token", token.bytes}, {"layers", layers}});
  }
  json["experts"] = tokens;
}

Json logprobs_of(const AnswerHead& head, const Choice& choice) {
  if (!choice.with_logprobs) return nullptr;
  return head.chat ? chat_logprobs(choice) : completion_logprobs(choice);
}

Json head_json(const AnswerHead& head, const char* object) {
  return {{"id", head.id},
          {"object", object},
          {"created", head.created},
          {"model", head.model},
          {"system_fingerprint", head.fingerprint}};
}

Json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

// Ids are of this answer, choice and call, so that no two are alike.
Json calls_json(const AnswerHead& head, const Choice& choice, bool with_index) {
  Json calls = Json::array();
  for (size_t i = 0; i < choice.calls.size(); ++i) {
    const int64_t number = choice.first_call + static_cast<int64_t>(i);
    Json call = Json::object();
    if (with_index) call["index"] = number;
    call["id"] = fmt::format("call_{}_{}_{}", head.id.substr(head.id.rfind('-') + 1), choice.index, number);
    call["type"] = "function";
    call["function"] = {{"name", choice.calls[i].name}, {"arguments", choice.calls[i].arguments}};
    calls.push_back(call);
  }
  return calls;
}

std::string event(const Json& json) { return "data: " + dumped(json) + "\n\n"; }

}  // namespace

std::string whole_answer(const AnswerHead& head, const std::vector<Choice>& choices, const Usage& usage) {
  Json json = head_json(head, head.chat ? "chat.completion" : "text_completion");
  json["choices"] = Json::array();
  for (const Choice& choice : choices) {
    Json each = {{"index", choice.index}};
    if (head.chat) {
      // A message that is nothing but calls has no content.
      const bool is_call = choice.text.empty() && !choice.calls.empty();
      each["message"] = {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}};
      if (is_call) each["message"]["content"] = nullptr;
      if (!choice.calls.empty()) each["message"]["tool_calls"] = calls_json(head, choice, false);
    } else {
      each["text"] = choice.text;
    }
    each["logprobs"] = logprobs_of(head, choice);
    add_experts(each, choice);
    each["finish_reason"] = text_or_null(choice.finish_reason);
    each["stop_reason"] = text_or_null(choice.stop_reason);
    json["choices"].push_back(each);
  }
  json["usage"] = usage_json(usage);
  return dumped(json) + "\n";
}

std::string answer_event(const AnswerHead& head, const Choice& choice, bool first, bool says_usage) {
  Json json = head_json(head, head.chat ? "chat.completion.chunk" : "text_completion");
  Json each = {{"index", choice.index}};
  if (head.chat) {
    Json delta = Json::object();
    if (first) delta["role"] = "assistant";
    const bool is_call = choice.text.empty() && !choice.calls.empty();
    if ((first && !is_call) || !choice.text.empty()) delta["content"] = choice.text;
    if (!choice.calls.empty()) delta["tool_calls"] = calls_json(head, choice, true);
    each["delta"] = delta;
  } else {
    each["text"] = choice.text;
  }
  each["logprobs"] = logprobs_of(head, choice);
  add_experts(each, choice);
  each["finish_reason"] = text_or_null(choice.finish_reason);
  if (!choice.stop_reason.empty()) each["stop_reason"] = choice.stop_reason;
  json["choices"] = Json::array({each});
  if (says_usage) json["usage"] = nullptr;
  return event(json);
}

std::string usage_event(const AnswerHead& head, const Usage& usage) {
  Json json = head_json(head, head.chat ? "chat.completion.chunk" : "text_completion");
  json["choices"] = Json::array();
  json["usage"] = usage_json(usage);
  return event(json);
}

std::string embeddings_answer(const std::string& model, const std::vector<std::vector<float>>& vectors,
                              int64_t tokens, bool as_base64) {
  Json data = Json::array();
  for (size_t i = 0; i < vectors.size(); ++i) {
    Json vector = vectors[i];
    if (as_base64) {
      std::string bytes;
      for (const float number : vectors[i]) {
        const auto bits = std::bit_cast<uint32_t>(number);
        for (int byte = 0; byte < 4; ++byte) bytes += static_cast<char>(bits >> (8 * byte) & 255);
      }
      vector = base64(bytes);
    }
    data.push_back({{"object", "embedding"}, {"index", i}, {"embedding", vector}});
  }
  const Json usage = {{"prompt_tokens", tokens}, {"total_tokens", tokens}};
  return dumped({{"object", "list"}, {"data", data}, {"model", model}, {"usage", usage}}) + "\n";
}

std::string error_event(const std::string& error_json) { return "data: " + error_json + "\n\n"; }

}  // namespace longhaul::openai
