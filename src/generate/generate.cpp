#include "generate/generate.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "model/context.h"
#include "model/parallel_ops.h"
#include "model/state.h"
#include "tensor/to_tensor.h"

namespace longhaul::generate {
namespace {

// Learned positions end; rotary ones and lightning layers do not.
int64_t positions_of(const recipe::ModelConfig& config) {
  return config.position == recipe::Position::kLearned ? config.max_positions : std::numeric_limits<int64_t>::max();
}

std::vector<int64_t> with_separator(const std::vector<int64_t>& prompt, int64_t separator) {
  std::vector<int64_t> ids;
  if (separator >= 0) ids.push_back(separator);
  ids.insert(ids.end(), prompt.begin(), prompt.end());
  if (ids.empty()) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "there is nothing to continue",
                 .expected = "a prompt, or a tokenizer with an end-of-document token to begin with",
                 .found = "neither",
                 .hint = "give a prompt"});
  }
  return ids;
}

void check(const GenerateSettings& settings) {
  check(settings.sampler());
  if (settings.min_tokens <= settings.tokens) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "more tokens are asked for at least than at most",
               .expected = fmt::format("min_tokens of at most tokens, {}", settings.tokens),
               .found = fmt::format("min_tokens {}", settings.min_tokens),
               .where = "--min-tokens and --tokens",
               .hint = fmt::format("--tokens {}", settings.min_tokens)});
}

}  // namespace

std::string_view name_of(Finish finish) {
  switch (finish) {
    case Finish::kTokens:
      return "tokens";
    case Finish::kStop:
      return "stop";
    case Finish::kPositions:
      return "positions";
  }
  LONGHAUL_ASSERT(false, "finish {}", static_cast<int>(finish));
}

Tensor advance(model::Decoder& decoder, const std::vector<int64_t>& ids, model::DecoderState& state) {
  LONGHAUL_ASSERT(!ids.empty());
  const at::NoGradGuard no_gradient;
  const int64_t length = static_cast<int64_t>(ids.size()), first = state.tokens;
  model::LocalOps ops;
  model::Context context(ops, decoder.precision());
  context.training = false;
  const auto layout = layout::make_packed(std::span(&length, 1), std::span(&first, 1));
  const Tensor hidden_td = decoder.hidden(context, to_tensor(ids, decoder.device()), layout, &state);
  return decoder.logits(hidden_td.narrow(0, length - 1, 1)).view({-1});
}

Generation generate(model::Decoder& decoder, const std::vector<int64_t>& prompt_ids, const GenerateSettings& settings,
                    const std::function<void(int64_t id)>& on_token) {
  check(settings);
  const SamplerSettings sampler = settings.sampler();
  std::vector<int64_t> fresh = with_separator(prompt_ids, settings.stop_id);
  const int64_t positions = positions_of(decoder.config());
  Generation generation{.prefill_tokens = static_cast<int64_t>(fresh.size())};
  if (generation.prefill_tokens > positions) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the prompt is longer than the model's positions",
                 .expected = fmt::format("at most {} tokens, the separator before them included", positions),
                 .found = fmt::format("{} tokens", generation.prefill_tokens),
                 .where = "model.max_positions",
                 .hint = "shorten the prompt, or use a model with rotary positions"});
  }
  model::DecoderState state;
  while (static_cast<int64_t>(generation.ids.size()) < settings.tokens) {
    if (state.tokens + static_cast<int64_t>(fresh.size()) > positions) {
      generation.finish = Finish::kPositions;
      break;
    }
    const Tensor logits_v = advance(decoder, fresh, state).to(at::kFloat).cpu().contiguous();
    const int64_t drawable = settings.vocabulary > 0 ? std::min(settings.vocabulary, logits_v.numel()) : logits_v.numel();
    const bool may_stop = static_cast<int64_t>(generation.ids.size()) >= settings.min_tokens;
    if (settings.stop_id >= 0 && settings.stop_id < drawable && !may_stop) {
      logits_v.mutable_data_ptr<float>()[settings.stop_id] = -std::numeric_limits<float>::infinity();
    }
    const std::span<const float> row(logits_v.const_data_ptr<float>(), static_cast<size_t>(drawable));
    const int64_t id = next_token(row, sampler, generation.ids.size());
    if (id == settings.stop_id) {
      generation.finish = Finish::kStop;
      break;
    }
    generation.ids.push_back(id);
    if (on_token) on_token(id);
    fresh = {id};
  }
  return generation;
}

}  // namespace longhaul::generate
