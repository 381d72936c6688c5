// Generates text with a decoder: passes over the prompts (prefill), then one token at a time, with one pass
// for all sequences that have not ended. Softmax layers keep keys and values in pages, recurrent layers an
// fp32 state. A prompt is preceded by the token that began documents in training (data/tokenizer:
// encode_prompt). No gradients. Not thread-safe for one decoder.
//
// A sequence does not depend on the others in its batch: rows of a product, and documents of a recurrence
// and of attention, are each summed in an order of their own (docs/design/decoding.md). In bf16 and fp32 on
// a CPU its tokens are the same as when it is generated alone, bit for bit.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "generate/prefix_cache.h"
#include "generate/route_recorder.h"
#include "generate/routes_file.h"
#include "generate/sampler.h"
#include "model/decoder.h"

namespace longhaul::generate {

struct GenerateSettings {
  int64_t tokens = 100;    // at most this many new ones
  int64_t min_tokens = 0;  // no stop token is drawn before this many; at most `tokens`
  double temperature = 0.8;
  int64_t top_k = 0;
  double top_p = 0.95;
  uint64_t seed = 0;  // sequence i of a call draws with seed + i
  int64_t count = 1;  // sequences for each prompt, which is read once
  // Only ids below this are drawn: a model may have more rows than its tokenizer has tokens. 0: all of the
  // model's rows.
  int64_t vocabulary = 0;
  // Records the experts of every token in Generation::routed; needs a generator without a prefix cache.
  bool records_routes = false;
  bool log_probabilities = false;      // records those of the drawn tokens in Generation::log_probabilities
  std::vector<int64_t> never = {};     // ids that are never drawn, because they stand for nothing
  std::vector<int64_t> stop_ids = {};  // drawing one of them ends the text
  SamplerSettings sampler(uint64_t sequence) const { return {temperature, top_k, top_p, seed + sequence}; }
};

enum class Finish { kTokens, kStop, kPositions };  // all tokens drawn; a stop token drawn; learned positions used up
std::string_view name_of(Finish finish);           // "tokens", "stop", "positions"

struct Generation {
  std::vector<int64_t> ids;                 // new tokens, without a stop token that ended them
  std::vector<double> log_probabilities{};  // of ids, if requested (sampler.h)
  Finish finish = Finish::kTokens;          // why it ended
  int64_t prefill_tokens = 0;               // of the prompt
  int64_t continued_tokens = 0;             // those of them that were in the prefix cache
  // The routes of prompt and new tokens, except the last one drawn, which was never read.
  RoutedSequence routed;
};

// kUsage: the prompt is empty, or longer than the model's learned positions. `where`: its name in the error.
void require_readable(const std::vector<int64_t>& prompt, const recipe::ModelConfig& config, const std::string& where);

// A decoder and the sequences that it generates. Several calls share the prefixes of their prompts that are
// kept, within `prefix_bytes` (prefix_cache.h). With 0, prompts are read together, at most kTokensOfPass
// tokens of each in a pass, so that the keys and values of a window stay bounded for long prompts too.
class Generator {
 public:
  static constexpr int64_t kTokensOfPass = 16 * PrefixCache::kTokens;

  explicit Generator(model::Decoder& decoder, int64_t prefix_bytes = 0);

  // Prompts may differ in length. Sequence i continues prompt i / count; on_token is called with each new token as soon as it is drawn.
  // Settings out of range, a prompt that does not fit the model's learned positions, or an empty one, are kUsage errors;
  // ids outside the vocabulary are kData.
  std::vector<Generation> run(std::span<const std::vector<int64_t>> prompts, const GenerateSettings& settings,
                              const std::function<void(int64_t sequence, int64_t id)>& on_token = {});
  const PrefixCache& prefixes() const { return prefixes_; }
  const model::DecoderState& state() const { return state_; }

 private:
  Tensor read(std::span<const std::vector<int64_t>> prompts, std::vector<int64_t>& rows, std::vector<Generation>& generations,
              int64_t count, RouteRecorder* recorder);

  model::Decoder& decoder_;
  model::DecoderState state_;
  PrefixCache prefixes_;
};

// Generates with a new Generator.
std::vector<Generation> generate_batch(model::Decoder& decoder, std::span<const std::vector<int64_t>> prompts,
                                       const GenerateSettings& settings,
                                       const std::function<void(int64_t sequence, int64_t id)>& on_token = {});
// Generates one sequence.
Generation generate(model::Decoder& decoder, const std::vector<int64_t>& prompt_ids, const GenerateSettings& settings,
                    const std::function<void(int64_t id)>& on_token = {});

// The next tokens to read for one sequence of a decoder state.
struct Continuation {
  int64_t row = 0;
  std::vector<int64_t> ids;  // at least one
};
// One pass: the decoder's logits for the token after each of these, [continuations, vocabulary]; advances
// the state. `recorder`, if any, records the routes.
Tensor advance(model::Decoder& decoder, std::span<const Continuation> continuations, model::DecoderState& state,
               RouteRecorder* recorder = nullptr);

}  // namespace longhaul::generate
