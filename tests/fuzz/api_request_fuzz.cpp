// Fuzz target of the requests of OpenAI's interface: any bytes are a request within its bounds, or an error
// object.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "openai/request.h"

namespace {

void must(bool good) {
  if (!good) std::abort();
}

template <class Read>
void try_to_read(const Read& read) {
  try {
    read();
  } catch (const longhaul::openai::ApiError& error) {
    must(error.status() == 400);
    must(nlohmann::json::parse(error.json()).contains("error"));
  }
}

void check(const longhaul::openai::TextOptions& options) {
  must(options.n >= 1 && options.n <= longhaul::openai::kMostChoices);
  must(options.temperature >= 0 && options.temperature <= 2);
  must(options.top_p > 0 && options.top_p <= 1);
  must(options.stop.size() <= longhaul::openai::kMostStops);
  for (const std::string& stop : options.stop)
    must(!stop.empty() && stop.size() <= longhaul::openai::kLongestStop);
  must(!options.max_tokens || *options.max_tokens > 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul::openai;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  try_to_read([&] {
    const CompletionRequest request = read_completion_request(body);
    check(request.options);
    must(!request.prompts.empty());
    for (const Prompt& prompt : request.prompts) {
      for (const int64_t id : prompt.ids) must(id >= 0);
    }
  });
  try_to_read([&] {
    const CompletionRequest request = read_chat_request(body);
    check(request.options);
    must(request.messages.is_array() && !request.messages.empty());
  });
  try_to_read([&] { read_tokenize_request(body); });
  try_to_read([&] { read_detokenize_request(body); });
  try_to_read([&] { read_embeddings_request(body); });
  return 0;
}
