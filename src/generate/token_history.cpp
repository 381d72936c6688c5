#include "generate/token_history.h"

#include <limits>

namespace longhaul::generate {
namespace {

bool has_penalty(const GenerateSettings& settings) {
  return settings.repetition_penalty != 1 || settings.frequency_penalty != 0 ||
         settings.presence_penalty != 0;
}

}  // namespace

TokenHistory::TokenHistory(const std::vector<int64_t>& prompt, const GenerateSettings& settings)
    : counts_(has_penalty(settings)) {
  if (settings.repetition_penalty == 1) return;
  for (const int64_t id : prompt) seen_[id];
}

void TokenHistory::add(int64_t id) {
  if (counts_) ++seen_[id];
}

bool TokenHistory::changes(const GenerateSettings& settings, int64_t drawn) const {
  return counts_ || !settings.logit_bias.empty() || !settings.never.empty() ||
         (drawn < settings.min_tokens && !settings.stop_ids.empty());
}

template <class Logit>
void TokenHistory::change(std::span<Logit> logits, const GenerateSettings& settings, int64_t drawn) const {
  const auto of = [&](int64_t id) -> Logit* {
    return id >= 0 && id < std::ssize(logits) ? &logits[static_cast<size_t>(id)] : nullptr;
  };
  for (const auto& [id, count] : seen_) {
    Logit* const logit = of(id);
    if (logit == nullptr) continue;
    double changed = *logit > 0 ? *logit / settings.repetition_penalty : *logit * settings.repetition_penalty;
    if (count > 0)
      changed -= settings.frequency_penalty * static_cast<double>(count) + settings.presence_penalty;
    *logit = static_cast<Logit>(changed);
  }
  for (const auto& [id, bias] : settings.logit_bias) {
    if (Logit* const logit = of(id)) *logit = static_cast<Logit>(static_cast<double>(*logit) + bias);
  }
  const auto leave_out = [&](const std::vector<int64_t>& ids) {
    for (const int64_t id : ids) {
      if (Logit* const logit = of(id)) *logit = -std::numeric_limits<Logit>::infinity();
    }
  };
  leave_out(settings.never);
  if (drawn < settings.min_tokens) leave_out(settings.stop_ids);
}

template void TokenHistory::change(std::span<float>, const GenerateSettings&, int64_t) const;
template void TokenHistory::change(std::span<double>, const GenerateSettings&, int64_t) const;

}  // namespace longhaul::generate
