// Fuzz target of JSON schemas that clients send: any JSON is a grammar or an error, and every text that a
// grammar's own bytes spell is JSON. The bytes after the first zero choose among those that may come.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "grammar/grammar_states.h"
#include "grammar/json_schema.h"

namespace {

using namespace longhaul::grammar;

void demand(bool good) {
  if (!good) std::abort();
}

void spell_a_text(const Grammar& grammar, std::string_view choices) {
  GrammarStates states(grammar);
  State state = states.start();
  std::string text;
  for (const char choice : choices) {
    if (states.must_end(state)) break;
    int byte = static_cast<unsigned char>(choice);
    for (int tries = 0; states.after(state, static_cast<unsigned char>(byte)) == kNoState; ++tries) {
      demand(tries < 256);  // something may follow
      byte = (byte + 1) % 256;
    }
    text += static_cast<char>(byte);
    state = states.after(state, static_cast<unsigned char>(byte));
  }
  if (states.may_end(state)) demand(!nlohmann::json::parse(text, nullptr, false).is_discarded());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t cut = std::min(bytes.find('\0'), bytes.size());
  // Requests nest no deeper than 200 levels (openai/request_fields.cpp).
  if (std::ranges::count(bytes, '[') + std::ranges::count(bytes, '{') > 200) return 0;
  const auto schema = nlohmann::ordered_json::parse(bytes.substr(0, cut), nullptr, false);
  if (schema.is_discarded()) return 0;
  try {
    spell_a_text(json_schema_grammar(schema), bytes.substr(cut).substr(0, 300));
  } catch (const longhaul::Error& error) {
    demand(error.code() == longhaul::ExitCode::kUsage);
  }
  return 0;
}
