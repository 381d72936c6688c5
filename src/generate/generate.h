// Text from a decoder: passes over the prompts (prefill), then token by token, all sequences that have not ended in one pass, with keys and
// values in pages for softmax layers and an fp32 state for recurrent ones. As in training, a text begins with what begins a document, so that is what
// stands before a prompt (data/tokenizer: encode_prompt). No gradients. Not thread-safe for one decoder.
//
// A sequence does not depend on those beside it: rows of a product, documents of a recurrence and of attention are summed in an order of
// their own (docs/design/decoding.md). In bf16 and fp32 on a CPU its tokens are those that it has alone, bit for bit.
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
  int64_t min_tokens = 0;  // before so many, no stop token is drawn; at most `tokens`
  double temperature = 0.8;
  int64_t top_k = 0;
  double top_p = 0.95;
  uint64_t seed = 0;            // sequence i of a call draws with seed + i
  int64_t count = 1;            // sequences for each prompt, which is read once
  int64_t vocabulary = 0;       // ids below this are drawn: a model may have more rows than its tokenizer has tokens. 0: all of the model's
  bool records_routes = false;  // which experts every token is sent to, for Generation::routed; takes a generator that keeps no beginnings
  bool log_probabilities = false;      // of the tokens that are drawn, for Generation::log_probabilities
  std::vector<int64_t> never = {};     // ids that are not drawn: those that stand for nothing
  std::vector<int64_t> stop_ids = {};  // drawing one of them ends the text
  SamplerSettings sampler(uint64_t sequence) const { return {temperature, top_k, top_p, seed + sequence}; }
};

enum class Finish { kTokens, kStop, kPositions };  // all tokens drawn; a stop token drawn; learned positions used up
std::string_view name_of(Finish finish);           // "tokens", "stop", "positions"

struct Generation {
  std::vector<int64_t> ids;                 // new tokens, without a stop token that ended them
  std::vector<double> log_probabilities{};  // of ids, where they are asked for (sampler.h)
  Finish finish = Finish::kTokens;          // why it ended
  int64_t prefill_tokens = 0;               // of the prompt
  int64_t continued_tokens = 0;             // of them those that an earlier prompt had read
  RoutedSequence routed;                    // of prompt and new tokens, all but the last one drawn: that was never read
};

// kUsage: the prompt is empty, or longer than the model's learned positions. `where`: how it is called in the error.
void require_readable(const std::vector<int64_t>& prompt, const recipe::ModelConfig& config, const std::string& where);

// A decoder and the sequences that it writes; several calls share what is kept of their prompts, within `prefix_bytes` (prefix_cache.h). Without
// any, prompts are read together, at most kTokensOfPass tokens of each in a pass: a window's keys and values stay bounded in long ones too.
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

// One call.
std::vector<Generation> generate_batch(model::Decoder& decoder, std::span<const std::vector<int64_t>> prompts,
                                       const GenerateSettings& settings,
                                       const std::function<void(int64_t sequence, int64_t id)>& on_token = {});
// One sequence.
Generation generate(model::Decoder& decoder, const std::vector<int64_t>& prompt_ids, const GenerateSettings& settings,
                    const std::function<void(int64_t id)>& on_token = {});

// The next tokens of a sequence of a state.
struct Continuation {
  int64_t row = 0;
  std::vector<int64_t> ids;  // at least one
};
// One pass: the decoder's logits for the token after each of these, [continuations, vocabulary]; advances the state. `recorder`, if any, learns the routes.
Tensor advance(model::Decoder& decoder, std::span<const Continuation> continuations, model::DecoderState& state,
               RouteRecorder* recorder = nullptr);

}  // namespace longhaul::generate
