#include "plan/footprint/lifetimes.h"

#include <cmath>

namespace longhaul::plan {

double lifetimes(const LifetimeQuestion& question) {
  return question.flops / (question.peak * question.mfu * question.years * kSecondsPerYear);
}

double whole_lifetimes(const LifetimeQuestion& question) { return std::ceil(lifetimes(question)); }

LifetimeGrid lifetime_grid(double flops, double peak) {
  LifetimeGrid grid;
  for (const double mfu : grid.mfu) {
    auto& row = grid.counts.emplace_back();
    for (const double years : grid.years) row.push_back(whole_lifetimes({flops, peak, mfu, years}));
  }
  return grid;
}

double saved_share(double mfu, double years, double better_mfu, double better_years) {
  return 1 - mfu * years / (better_mfu * better_years);
}

}  // namespace longhaul::plan
