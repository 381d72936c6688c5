// The requests of OpenAI's interface, read from their JSON: POST /v1/completions, /v1/chat/completions,
// /v1/embeddings, and /tokenize and /detokenize as vLLM has them. Extensions of the same names as elsewhere:
// top_k, min_p, repetition_penalty, stop_token_ids, min_tokens, ignore_eos, chat_template_kwargs,
// include_stop_str_in_output; and loop_tokens and experts of our own (generate/settings.h).
//
// What cannot be right is an ApiError (400) that names the field: wrong JSON, a field of another type or out
// of range, fields that nobody knows, and fields that would change the answer and are not implemented. Fields
// that ask for nothing that concerns the text (user, metadata, store …) are passed over. Pure; thread-safe.
// docs/guides/serve.md lists all fields.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "openai/api_error.h"

namespace longhaul::openai {

inline constexpr size_t kMostStops = 32, kLongestStop = 512;  // stop strings, and bytes of one
inline constexpr int64_t kMostTopTokens = 20;                 // whose probabilities are told
inline constexpr int64_t kMostChoices = 128, kMostPrompts = 256;
inline constexpr int64_t kMostBiases = 4096, kMostStopIds = 1024;
inline constexpr size_t kMostJsonValues = 2'000'000;  // each takes many times the memory of its text

struct Prompt {
  std::optional<std::string> text;  // none: ids
  std::vector<int64_t> ids;
};

// What a text is held to (response_format).
enum class TextForm { kAny, kJsonObject, kJsonSchema };

// How a text is drawn and where it ends.
struct TextOptions {
  std::optional<int64_t> max_tokens;
  int64_t min_tokens = 0;
  double temperature = 1, top_p = 1, min_p = 0;
  int64_t top_k = 0;
  double repetition_penalty = 1, frequency_penalty = 0, presence_penalty = 0;
  std::vector<std::pair<int64_t, double>> logit_bias;
  std::optional<uint64_t> seed;
  int64_t n = 1;
  std::vector<std::string> stop;
  std::vector<int64_t> stop_token_ids;
  bool ignore_eos = false, keeps_stop = false;  // keeps_stop: a stop string stays in the text
  bool logprobs = false;
  int64_t top_logprobs = 0;
  bool experts = false;  // of a mixture: those of each new token are told
  int64_t loop_tokens = 0;
  bool stream = false, stream_usage = false;
  TextForm form = TextForm::kAny;
  nlohmann::ordered_json schema;  // of kJsonSchema
};

// Whether the model calls a tool: as it likes, or it must call one, or the one that is named. Without tools
// it cannot.
enum class ToolChoice { kAuto, kRequired, kNamed };

struct CompletionRequest {
  bool chat = false;
  std::string model;  // empty: the first one
  TextOptions options;
  std::vector<Prompt> prompts;  // of /v1/completions
  bool echo = false;
  // Of /v1/chat/completions, as the client wrote them.
  nlohmann::ordered_json messages, tools, template_variables;
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string tool;                 // of kNamed
  bool parallel_tool_calls = true;  // of kRequired: several calls may come
  bool add_generation_prompt = true, continue_final_message = false;
};

CompletionRequest read_completion_request(std::string_view body);
CompletionRequest read_chat_request(std::string_view body);

struct TokenizeRequest {
  std::string model;
  std::string prompt;
  bool add_special_tokens = true;
};
TokenizeRequest read_tokenize_request(std::string_view body);

struct DetokenizeRequest {
  std::string model;
  std::vector<int64_t> tokens;
};
DetokenizeRequest read_detokenize_request(std::string_view body);

struct EmbeddingsRequest {
  std::string model;
  std::vector<Prompt> inputs;
  bool base64 = false;
};
EmbeddingsRequest read_embeddings_request(std::string_view body);

}  // namespace longhaul::openai
