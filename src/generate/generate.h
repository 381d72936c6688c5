// Generates texts with a decoder in one call, for a number of prompts that is known: requests to an Engine
// (engine.h), all with the same settings. A prompt is preceded by the token that began documents in training
// (data/tokenizer: encode_prompt). No gradients. Not thread-safe for one decoder.
//
// A sequence does not depend on the others in its batch: rows of a product, and documents of a recurrence
// and of attention, are each summed in an order of their own (docs/design/decoding.md). In bf16 and fp32 on
// a CPU its tokens are the same as when it is generated alone, bit for bit.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "generate/engine.h"

namespace longhaul::generate {

// A decoder and the sequences that it generates. Several calls share the prefixes of their prompts that are
// kept, within `prefix_bytes` (prefix_cache.h). With 0, prompts are read together, at most kTokensOfPass
// tokens of each in a pass, so that the keys and values of a window stay bounded for long prompts too. Of the
// engine's other options what is given counts (EngineOptions::int8_keys_values, pass).
class Generator {
 public:
  static constexpr int64_t kTokensOfPass = 16 * PrefixCache::kTokens;

  explicit Generator(model::Decoder& decoder, int64_t prefix_bytes = 0, EngineOptions options = {});

  // Prompts may differ in length. Sequence i continues prompt i / count; on_token is called with each new
  // token as soon as it is drawn. Settings out of range, a prompt that does not fit the model's learned
  // positions, or an empty one, are kUsage errors; ids outside the vocabulary are kData.
  std::vector<Generation> run(std::span<const std::vector<int64_t>> prompts, const GenerateSettings& settings,
                              const std::function<void(int64_t sequence, int64_t id)>& on_token = {});
  const PrefixCache& prefixes() const { return engine_.prefixes(); }
  const model::DecoderState& state() const { return engine_.state(); }

 private:
  model::Decoder& decoder_;
  Engine engine_;
};

// Generates with a new Generator.
std::vector<Generation> generate_batch(
    model::Decoder& decoder, std::span<const std::vector<int64_t>> prompts, const GenerateSettings& settings,
    const std::function<void(int64_t sequence, int64_t id)>& on_token = {});
// Generates one sequence.
Generation generate(model::Decoder& decoder, const std::vector<int64_t>& prompt_ids,
                    const GenerateSettings& settings, const std::function<void(int64_t id)>& on_token = {});

}  // namespace longhaul::generate
