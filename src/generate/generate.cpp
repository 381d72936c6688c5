#include "generate/generate.h"

#include "base/error.h"

namespace longhaul::generate {

// With a cache one prompt is read after the other, so that each finds what the one before left.
static EngineOptions with_sizes(EngineOptions options, int64_t prefix_bytes) {
  options.prompt_tokens = Generator::kTokensOfPass;
  options.prompts_tokens = prefix_bytes > 0 ? PrefixCache::kTokens : 0;
  options.prefix_bytes = prefix_bytes;
  return options;
}

Generator::Generator(model::Decoder& decoder, int64_t prefix_bytes, EngineOptions options)
    : decoder_(decoder), engine_(decoder, with_sizes(std::move(options), prefix_bytes)) {}

std::vector<Generation> Generator::run(std::span<const std::vector<int64_t>> prompts,
                                       const GenerateSettings& settings,
                                       const std::function<void(int64_t, int64_t)>& on_token) {
  check(settings);
  std::vector<Generation> generations(prompts.size() * static_cast<size_t>(settings.count));
  const auto name = [&](size_t p) {
    return prompts.size() > 1 ? fmt::format("prompt {} of {}", p + 1, prompts.size()) : "the prompt";
  };
  for (size_t p = 0; p < prompts.size(); ++p) require_readable(prompts[p], decoder_.config(), name(p));
  try {
    for (size_t p = 0; p < prompts.size(); ++p) {
      const auto first = static_cast<int64_t>(p) * settings.count;
      for (int64_t i = 0; i < settings.count; ++i)
        generations[static_cast<size_t>(first + i)].prefill_tokens = std::ssize(prompts[p]);
      if (settings.tokens == 0) continue;
      Request request{.prompt = prompts[p], .settings = settings};
      request.settings.seed += static_cast<uint64_t>(first);
      request.where = name(p);
      request.on_token = [&on_token, first](const Drawn& drawn) {
        if (on_token) on_token(first + drawn.sequence, drawn.id);
        return true;
      };
      request.on_end = [&generations, first](int64_t sequence, Generation generation) {
        generations[static_cast<size_t>(first + sequence)] = std::move(generation);
      };
      engine_.submit(std::move(request));
    }
    while (engine_.step()) {
      for (const Generation& generation : generations) {
        if (generation.error) std::rethrow_exception(generation.error);
      }
    }
  } catch (...) {
    engine_.cancel_all();
    throw;
  }
  return generations;
}

std::vector<Generation> generate_batch(model::Decoder& decoder, std::span<const std::vector<int64_t>> prompts,
                                       const GenerateSettings& settings,
                                       const std::function<void(int64_t, int64_t)>& on_token) {
  return Generator(decoder).run(prompts, settings, on_token);
}

Generation generate(model::Decoder& decoder, const std::vector<int64_t>& prompt_ids,
                    const GenerateSettings& settings, const std::function<void(int64_t id)>& on_token) {
  LONGHAUL_ASSERT(settings.count == 1, "one sequence, not {}", settings.count);
  const auto say = [&](int64_t, int64_t id) {
    if (on_token) on_token(id);
  };
  return generate_batch(decoder, std::span(&prompt_ids, 1), settings, say).front();
}

}  // namespace longhaul::generate
