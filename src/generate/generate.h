// Text from a decoder: one pass over the prompt (prefill), then token by token with a key-value cache for softmax layers and an
// fp32 state for lightning layers. As in training, a document begins with the end-of-document separator, so that is what stands
// before the prompt. No gradients. One sequence a call; not thread-safe for one decoder.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "generate/sampler.h"
#include "model/decoder.h"

namespace longhaul::generate {

struct GenerateSettings {
  int64_t tokens = 100;    // at most this many new ones
  int64_t min_tokens = 0;  // before so many, the separator is not drawn; at most `tokens`
  double temperature = 0.8;
  int64_t top_k = 0;
  double top_p = 0.95;
  uint64_t seed = 0;
  int64_t vocabulary = 0;  // ids below this are drawn: a model may have more rows than its tokenizer has tokens. 0: all of the model's
  int64_t stop_id = -1;    // the end-of-document separator: put before the prompt; drawing it ends the text. −1: none
  SamplerSettings sampler() const { return {temperature, top_k, top_p, seed}; }
};

enum class Finish { kTokens, kStop, kPositions };  // all tokens drawn; separator drawn; learned positions used up
std::string_view name_of(Finish finish);           // "tokens", "stop", "positions"

struct Generation {
  std::vector<int64_t> ids;         // new tokens, without a separator that ended them
  Finish finish = Finish::kTokens;  // why it ended
  int64_t prefill_tokens = 0;       // prompt and separator
};

// on_token is called with each new token as soon as it is drawn. Settings out of range, a prompt that does not fit the model's learned
// positions, or an empty one without a separator, are kUsage errors; ids outside the vocabulary are kData.
Generation generate(model::Decoder& decoder, const std::vector<int64_t>& prompt_ids, const GenerateSettings& settings,
                    const std::function<void(int64_t id)>& on_token = {});

// The decoder's logits for the token after `ids`, [vocabulary], continuing (and advancing) the state.
Tensor advance(model::Decoder& decoder, const std::vector<int64_t>& ids, model::DecoderState& state);

}  // namespace longhaul::generate
