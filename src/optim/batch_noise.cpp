#include "optim/batch_noise.h"

#include "base/error.h"

namespace longhaul::optim {

void BatchNoise::add(const NormOfBatch& small, const NormOfBatch& large) {
  LONGHAUL_ASSERT(small.tokens > 0 && small.tokens < large.tokens, "{} and {} tokens", small.tokens,
                  large.tokens);
  const double b = small.tokens, of_b = small.norm * small.norm, all = large.tokens,
               of_all = large.norm * large.norm;
  sums_.gradient = kept_ * sums_.gradient + (all * of_all - b * of_b) / (all - b);
  sums_.noise = kept_ * sums_.noise + (of_b - of_all) / (1 / b - 1 / all);
}

std::optional<double> BatchNoise::critical_batch() const {
  if (!(sums_.gradient > 0) || !(sums_.noise > 0)) return std::nullopt;
  return sums_.noise / sums_.gradient;
}

}  // namespace longhaul::optim
