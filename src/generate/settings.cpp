#include "generate/settings.h"

#include <cmath>

#include "base/error.h"

namespace longhaul::generate {

void check(const GenerateSettings& settings) {
  check(settings.sampler(0));
  const auto refuse = [](const char* option, const char* expected, double found) {
    throw Error({.code = ExitCode::kUsage,
                 .what = fmt::format("{} is out of range", option),
                 .expected = expected,
                 .found = fmt::format("{}", found),
                 .where = option});
  };
  if (!(settings.repetition_penalty > 0) || std::isinf(settings.repetition_penalty))
    refuse("repetition_penalty", "above 0", settings.repetition_penalty);
  if (!std::isfinite(settings.frequency_penalty))
    refuse("frequency_penalty", "a finite number", settings.frequency_penalty);
  if (!std::isfinite(settings.presence_penalty))
    refuse("presence_penalty", "a finite number", settings.presence_penalty);
  for (const auto& [id, bias] : settings.logit_bias) {
    if (!std::isfinite(bias)) refuse("logit_bias", "finite numbers", bias);
  }
  if (settings.loop_tokens < 0) refuse("loop_tokens", "0 or more", static_cast<double>(settings.loop_tokens));
  if (!(settings.loop_probability > 0 && settings.loop_probability < 1))
    refuse("loop_probability", "between 0 and 1", settings.loop_probability);
  if (settings.count < 1) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "there is nothing to generate",
                 .expected = "count of 1 or more",
                 .found = fmt::format("{}", settings.count),
                 .where = "--count"});
  }
  if (settings.min_tokens <= settings.tokens) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "more tokens are asked for at least than at most",
               .expected = fmt::format("min_tokens of at most tokens, {}", settings.tokens),
               .found = fmt::format("min_tokens {}", settings.min_tokens),
               .where = "--min-tokens and --tokens",
               .hint = fmt::format("--tokens {}", settings.min_tokens)});
}

std::string_view name_of(Finish finish) {
  switch (finish) {
    case Finish::kTokens:
      return "tokens";
    case Finish::kStop:
      return "stop";
    case Finish::kPositions:
      return "positions";
    case Finish::kLoop:
      return "loop";
    case Finish::kCancelled:
      return "cancelled";
    case Finish::kError:
      return "error";
  }
  LONGHAUL_ASSERT(false, "finish {}", static_cast<int>(finish));
}

}  // namespace longhaul::generate
