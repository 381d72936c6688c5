// Fuzz target: any bytes as tokenizer.json. Reading either throws Error 65 or gives a tokenizer that encodes,
// decodes what it encoded and finds its stream cuts without crashing.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "data/tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using longhaul::data::Tokenizer;
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const Tokenizer tokenizer = Tokenizer::from_json(text, "fuzz");
    const std::string sample = text.substr(0, 300) + " def x(1234): \xFF\xE4\xBD\n";
    const auto ids = tokenizer.encode(sample, true);
    if (tokenizer.decode(ids).size() > 1000 * (sample.size() + 1000) + 1000 * size) std::abort();
    if (tokenizer.last_safe_cut(sample) >= static_cast<int64_t>(sample.size())) std::abort();
  } catch (const longhaul::Error& error) {
    if (error.code() != longhaul::ExitCode::kData) std::abort();
  }
  return 0;
}
