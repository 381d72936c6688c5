// Scaling laws of a set of runs: the lowest loss for a given compute, with the best numbers of parameters and
// tokens, as power laws. The method is that of 2406.16690 (and of Hoffmann et al., 2203.15556, approach 1):
// take the lower envelope of the runs' loss curves over compute, and fit lines through its points in log-log
// by least squares.
//
//   L(C) = factor · C^exponent;   N_opt(C) and D_opt(C) likewise;   C in PFLOP/s-days (8.64e19 FLOP)
//
// The envelope is evaluated at compute values that are evenly spaced in the logarithm: each run that reaches
// a value is interpolated there, and the lowest loss is taken. So a long run has no more weight than a short
// one. Plain functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace longhaul::plan {

inline constexpr double kPetaflopDay = 8.64e19;

struct LossPoint {
  double compute = 0;  // training FLOP so far
  double tokens = 0;
  double loss = 0;
};

struct LossCurve {
  std::string run;
  double parameters = 0;
  std::vector<LossPoint> points;  // compute ascending
};

struct EnvelopePoint {
  double compute = 0, parameters = 0, tokens = 0, loss = 0;
  size_t curve = 0;  // the curve that has this loss
};

struct PowerLaw {
  double factor = 0, exponent = 0;
  double deviation = 0;  // root mean square distance of the logarithms from the line
  int64_t points = 0;
  double at(double x) const;
};

// Averages the loss over windows of the given length in the logarithm of compute (0: no averaging), without
// the first `skip` share of the curve's tokens.
LossCurve smoothed(const LossCurve& curve, double window, double skip);

// kUsage where no curve has two points. `points`: number of compute values.
std::vector<EnvelopePoint> envelope(std::span<const LossCurve> curves, int64_t points);

// Needs at least two points with different x; kUsage otherwise, and for numbers that are not above 0.
PowerLaw fit_power_law(std::span<const double> x, std::span<const double> y);

struct ScalingLaws {
  std::vector<EnvelopePoint> envelope;
  PowerLaw loss_of_compute, parameters_of_compute, tokens_of_compute;  // compute in PFLOP/s-days
  PowerLaw loss_of_parameters, loss_of_tokens;                         // along the envelope
  int64_t runs_on_envelope = 0;  // With only one run nothing is known about parameters, and those laws are 0.
};
ScalingLaws scaling_laws(std::span<const LossCurve> curves, int64_t points);

}  // namespace longhaul::plan
