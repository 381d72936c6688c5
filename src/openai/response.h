// The answers of OpenAI's interface as JSON: whole, or piece by piece as server-sent events. Bytes that are
// not UTF-8 become U+FFFD in texts; "bytes" of a token's log probability has them as they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/net/http_server.h"
#include "openai/tools/tool_calls.h"

namespace longhaul::openai {

// What all parts of one answer say.
struct AnswerHead {
  std::string id;
  bool chat = false;
  int64_t created = 0;  // Unix time
  std::string model, fingerprint;
};

// The experts that one layer chose, best first, with their weights.
struct ExpertShares {
  int64_t layer = 0;
  std::vector<std::pair<int64_t, double>> chosen;
};

struct TokenText {
  std::string bytes;
  double log_probability = 0;
  std::vector<std::pair<std::string, double>> top = {};  // likeliest first
  std::vector<ExpertShares> experts = {};                // by layer
};

// One text, or a piece of it.
struct Choice {
  int64_t index = 0;
  std::string text;
  bool with_logprobs = false, with_experts = false;
  std::vector<TokenText> tokens = {};
  int64_t text_offset = 0;           // in bytes, of the first token, in what was sent so far
  std::vector<ToolCall> calls = {};  // of tools, in conversations
  int64_t first_call = 0;            // calls that were sent before
  std::string finish_reason = {};    // empty: it goes on
  std::string stop_reason = {};      // the stop string, or another reason with a name; may be empty
};

struct Usage {
  int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
};

std::string whole_answer(const AnswerHead& head, const std::vector<Choice>& choices, const Usage& usage);
// "data: {…}\n\n". first: of this choice; a conversation's first piece names the role.
std::string answer_event(const AnswerHead& head, const Choice& choice, bool first, bool says_usage);
std::string usage_event(const AnswerHead& head, const Usage& usage);  // with no choices, the last one
inline constexpr std::string_view kLastEvent = "data: [DONE]\n\n";
// A vector for each input. as_base64: of little-endian fp32 numbers.
std::string embeddings_answer(const std::string& model, const std::vector<std::vector<float>>& vectors,
                              int64_t tokens, bool as_base64);
std::string error_event(const std::string& error_json);

}  // namespace longhaul::openai
