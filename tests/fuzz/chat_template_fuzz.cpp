// Fuzz target: any bytes as a chat template. Parsing and rendering either throw Error 65 or give a text that
// encodes within small limits; neither crashes nor hangs.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "data/chat/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul::data::chat;
  static const auto kMessages = nlohmann::ordered_json::parse(
      R"([{"role": "system", "content": "be"}, {"role": "user", "content": [{"type": "text", "text": "wie ß 你"}]},
          {"role": "assistant", "content": "<think>x</think> y", "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, 2.5]}}}]},
          {"role": "tool", "content": null}])");
  static const auto kTools = nlohmann::ordered_json::parse(
      R"([{"type": "function", "function": {"name": "f", "parameters": {"properties": {}}}}])");
  TemplateLimits limits;
  limits.steps = 200'000;
  limits.text_bytes = 4 << 20;
  limits.output_bytes = 1 << 20;
  try {
    const auto chat =
        ChatTemplate::parse(std::string(reinterpret_cast<const char*>(data), size), "fuzz", limits);
    for (const bool last : {false, true}) {
      const RenderedChat rendered = chat.render({.messages = kMessages,
                                                 .tools = kTools,
                                                 .continue_final_message = last,
                                                 .special_tokens = {{"bos_token", "<s>"}},
                                                 .now = std::tm{}});
      if (static_cast<int64_t>(rendered.text.size()) > limits.output_bytes) std::abort();
      for (const ByteRange& range : rendered.written) {
        if (range.begin >= range.end || range.end > rendered.text.size()) std::abort();
      }
    }
  } catch (const longhaul::Error& error) {
    if (error.code() != longhaul::ExitCode::kData) std::abort();
  }
  return 0;
}
