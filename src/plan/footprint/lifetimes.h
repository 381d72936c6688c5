// The number of device lives that a training uses up (arXiv 2512.04142): N = ceil(FLOPs / (peak · MFU ·
// seconds of a life)). This is not the number of installed devices: N devices for t hours use up N·t/life
// lives. A life is at full duty; for utilisation u pass years · u.
#pragma once

#include <cstdint>
#include <vector>

namespace longhaul::plan {

inline constexpr double kSecondsPerYear = 365.0 * 86400;

struct LifetimeQuestion {
  double flops = 0;      // model FLOPs of the whole training
  double peak = 312e12;  // dense FLOP/s of a device
  double mfu = 0.35;     // 0 to 1
  double years = 2;
};
double lifetimes(const LifetimeQuestion& question);
double whole_lifetimes(const LifetimeQuestion& question);  // rounded up

// LifetimeGrid: the lives for each share of the peak and each length of a life: counts[mfu][years].
struct LifetimeGrid {
  std::vector<double> mfu = {0.20, 0.35, 0.50, 0.60}, years = {1, 2, 3, 5};
  std::vector<std::vector<double>> counts;
};
LifetimeGrid lifetime_grid(double flops, double peak);

// Share of devices saved by a better way of working: 1 − (mfu · years) / (better mfu · better years).
double saved_share(double mfu, double years, double better_mfu, double better_years);

}  // namespace longhaul::plan
