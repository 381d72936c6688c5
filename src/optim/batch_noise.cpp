#include "optim/batch_noise.h"

#include "base/error.h"

namespace longhaul::optim {

void BatchNoise::add(const NormOfBatch& small, const NormOfBatch& large) {
  LONGHAUL_ASSERT(small.tokens > 0 && small.tokens < large.tokens, "{} and {} tokens", small.tokens, large.tokens);
  const double b = small.tokens, of_b = small.norm * small.norm, all = large.tokens, of_all = large.norm * large.norm;
  gradient_ = kept_ * gradient_ + (all * of_all - b * of_b) / (all - b);
  noise_ = kept_ * noise_ + (of_b - of_all) / (1 / b - 1 / all);
}

std::optional<double> BatchNoise::critical_batch() const {
  if (!(gradient_ > 0) || !(noise_ > 0)) return std::nullopt;
  return noise_ / gradient_;
}

}  // namespace longhaul::optim
