// Scaling laws of a set of runs: how low the loss gets for the compute spent, with how many parameters and tokens, as power laws. The method is that
// of 2406.16690 (and of Hoffmann et al., 2203.15556, approach 1): take the lower envelope of the runs' loss curves over compute, and lines
// through its points in log-log, by least squares.
//
//   L(C) = factor · C^exponent;   N_opt(C), D_opt(C) likewise;   C in PFLOP/s-days (8.64e19 FLOP)
//
// The envelope is read off at compute values evenly spaced in the logarithm: there each run that has been so far is interpolated, and the lowest loss
// wins. So a long run counts no more than a short one. Plain functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace longhaul::plan {

inline constexpr double kPetaflopDay = 8.64e19;

struct LossPoint {
  double compute = 0;  // FLOP, training, so far
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
  size_t curve = 0;  // whose loss it is
};

struct PowerLaw {
  double factor = 0, exponent = 0;
  double deviation = 0;  // root mean square of the logarithms' distance from the line
  int64_t points = 0;
  double at(double x) const;
};

// Mean loss over windows of the curve that are so long in the logarithm of compute (0: as it is); without the first `skip` share of its tokens.
LossCurve smoothed(const LossCurve& curve, double window, double skip);

// kUsage where no curve has two points. `points`: how many values of compute.
std::vector<EnvelopePoint> envelope(std::span<const LossCurve> curves, int64_t points);

// Through at least two points with different x; kUsage otherwise, and for numbers that are not above 0.
PowerLaw fit_power_law(std::span<const double> x, std::span<const double> y);

struct ScalingLaws {
  std::vector<EnvelopePoint> envelope;
  PowerLaw loss_of_compute, parameters_of_compute, tokens_of_compute;  // compute in PFLOP/s-days
  PowerLaw loss_of_parameters, loss_of_tokens;                         // along the envelope
  int64_t runs_on_envelope = 0;                                        // of one alone nothing is known about parameters: those laws are 0
};
ScalingLaws scaling_laws(std::span<const LossCurve> curves, int64_t points);

}  // namespace longhaul::plan
