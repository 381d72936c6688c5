// A model behind an OpenAI-compatible server (vLLM, SGLang, llama.cpp and others): POST
// …/v1/chat/completions, one answer a request. A server that is busy or cannot be reached (429, 5xx, no
// connection) is asked again, later and later; what it refuses otherwise is an Error with its words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/net/http.h"

namespace longhaul::puzzles {

struct ChatModel {
  HttpAddress address;
  std::string model, key;  // key: sent as a bearer token; empty: none
  double temperature = 1, top_p = 1;
  int64_t tokens = 8192;  // at most, of an answer
  int64_t retries = 6;
  double timeout_s = 600;  // of one answer
  double first_pause_s = 0.5;
};

// "http://host:8000" and "http://host:8000/v1" mean the same
HttpAddress chat_address(const std::string& url);
std::vector<std::string> chat_answers(const ChatModel& model, const std::string& prompt, int64_t answers,
                                      uint64_t seed);

}  // namespace longhaul::puzzles
