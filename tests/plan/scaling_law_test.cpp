// Fits of synthetic runs whose laws are known, and the numbers that the study printed.
#include "plan/scaling/scaling_law.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "plan/scaling/scaling_study.h"

namespace longhaul::plan {
namespace {

TEST(PowerLaws, AreFoundExactly) {
  std::vector<double> x, y;
  for (int i = 1; i <= 9; ++i) x.push_back(i * i * 0.3), y.push_back(2.5 * std::pow(i * i * 0.3, -0.0753));
  const PowerLaw law = fit_power_law(x, y);
  EXPECT_NEAR(law.factor, 2.5, 1e-12);
  EXPECT_NEAR(law.exponent, -0.0753, 1e-13);
  EXPECT_NEAR(law.deviation, 0, 1e-12);
  EXPECT_EQ(law.points, 9);
  EXPECT_NEAR(law.at(7), 2.5 * std::pow(7, -0.0753), 1e-12);
}

// By hand: x = 1, e, e²; log y = 0, 2, 1: slope 1/2, offset 1/2; residuals −1/2, 1, −1/2.
TEST(PowerLaws, AreLeastSquaresOfLogarithms) {
  const double e = std::exp(1);
  const PowerLaw law = fit_power_law(std::vector{1.0, e, e * e}, std::vector{1.0, e * e, e});
  EXPECT_NEAR(law.exponent, 0.5, 1e-12);
  EXPECT_NEAR(std::log(law.factor), 0.5, 1e-12);
  EXPECT_NEAR(law.deviation, std::sqrt(1.5 / 3), 1e-12);
}

TEST(PowerLaws, RefuseWhatHasNone) {
  EXPECT_THROW(fit_power_law(std::vector{1.0}, std::vector{2.0}), Error);
  EXPECT_THROW(fit_power_law(std::vector{3.0, 3.0}, std::vector{2.0, 1.0}), Error);
  EXPECT_THROW(fit_power_law(std::vector{1.0, 2.0}, std::vector{0.0, 1.0}), Error);
  EXPECT_THROW(fit_power_law(std::vector{1.0, 2.0}, std::vector{NAN, 1.0}), Error);
}

// L(N, D) = A N^−a + B D^−b, trained at 6·N FLOP a token. Its minimum at C = 6·N·D, by calculus:
// N_opt ∝ C^(b/(a+b)), D_opt ∝ C^(a/(a+b)), L ∝ C^(−ab/(a+b)).
std::vector<LossCurve> runs_of(double a, double b, int sizes, double noise = 0) {
  std::vector<LossCurve> curves;
  const RandomStream random(3, "scaling test");
  uint64_t at = 0;
  for (int s = 0; s < sizes; ++s) {
    LossCurve curve{.run = std::to_string(s), .parameters = 1e6 * std::pow(1.3, s), .points = {}};
    for (int i = 0; i < 400; ++i) {
      const double tokens = 1e5 * std::pow(1.025, i);
      const double loss = 60 * std::pow(curve.parameters, -a) + 60 * std::pow(tokens, -b);
      curve.points.push_back(
          {6 * curve.parameters * tokens, tokens, loss * std::exp(noise * random.normal(at++))});
    }
    curves.push_back(curve);
  }
  return curves;
}

TEST(ScalingLaws, OfSyntheticRunsAreTheirOwn) {
  for (const auto& [a, b] : {std::pair(0.3, 0.3), std::pair(0.25, 0.35)}) {
    std::vector<LossCurve> curves = runs_of(a, b, 30);
    // Where the optimum lies between the sizes: N = (a/b · …)^… is cheap to bound by those neither smallest
    // nor largest.
    const std::vector<EnvelopePoint> all = envelope(curves, 400);
    std::vector<double> c, n, d, l;
    for (const EnvelopePoint& point : all) {
      if (point.curve == 0 || point.curve + 1 == curves.size()) continue;
      c.push_back(point.compute), n.push_back(point.parameters), d.push_back(point.tokens),
          l.push_back(point.loss);
    }
    ASSERT_GT(c.size(), 100u);
    EXPECT_NEAR(fit_power_law(c, n).exponent, b / (a + b), 0.01);
    EXPECT_NEAR(fit_power_law(c, d).exponent, a / (a + b), 0.01);
    EXPECT_NEAR(fit_power_law(c, l).exponent, -a * b / (a + b), 0.002);
  }
}

TEST(ScalingLaws, OneRunHasNoLawOfParameters) {
  const ScalingLaws laws = scaling_laws(runs_of(0.3, 0.3, 1), 50);
  EXPECT_EQ(laws.runs_on_envelope, 1);
  EXPECT_EQ(laws.parameters_of_compute.points, 0);
  EXPECT_LT(laws.loss_of_compute.exponent, 0);
  EXPECT_NEAR(laws.tokens_of_compute.exponent, 1, 1e-9);
}

// Two straight curves that cross at C = 10: L = 4·C^−0.1 of the small one, L = 4·10^0.1·C^−0.2 of the large
// one.
TEST(ScalingLaws, EnvelopeTakesTheLowerCurve) {
  std::vector<LossCurve> curves(2);
  for (int i = 0; i <= 20; ++i) {
    const double compute = std::pow(10, i / 10.0);
    curves[0].points.push_back({compute, compute, 4 * std::pow(compute, -0.1)});
    curves[1].points.push_back({compute, compute / 2, 4 * std::pow(10, 0.1) * std::pow(compute, -0.2)});
  }
  curves[0].parameters = 1, curves[1].parameters = 2;
  for (const EnvelopePoint& point : envelope(curves, 32)) {
    const bool small = point.compute < 10;
    EXPECT_EQ(point.curve, small ? 0u : 1u) << point.compute;
    EXPECT_NEAR(
        point.loss,
        small ? 4 * std::pow(point.compute, -0.1) : 4 * std::pow(10, 0.1) * std::pow(point.compute, -0.2),
        1e-9);
    EXPECT_NEAR(point.tokens, small ? point.compute : point.compute / 2, 1e-9);
  }
}

TEST(ScalingLaws, SmoothingLeavesALawsExponent) {
  const auto noisy = runs_of(0.3, 0.3, 20, 0.02);
  std::vector<LossCurve> smooth;
  for (const LossCurve& curve : noisy) smooth.push_back(smoothed(curve, 0.3, 0));
  EXPECT_NEAR(scaling_laws(smooth, 200).loss_of_compute.exponent,
              scaling_laws(runs_of(0.3, 0.3, 20), 200).loss_of_compute.exponent, 0.01);
  const LossCurve late = smoothed(noisy[0], 0, 0.5);
  EXPECT_GE(late.points.front().tokens, 0.5 * noisy[0].points.back().tokens);
  EXPECT_EQ(late.points.back().loss, noisy[0].points.back().loss);
}

// The mean of a window of a law stands where the law has it: at the window's middle.
TEST(ScalingLaws, SmoothedPointsOfALawLieOnIt) {
  LossCurve curve{.run = "", .parameters = 1e6, .points = {}};
  for (int i = 0; i < 400; ++i) {
    const double compute = std::exp(0.01 * i);
    curve.points.push_back({compute, compute, 3 * std::pow(compute, -0.1)});
  }
  const LossCurve smooth = smoothed(curve, 0.5, 0);
  ASSERT_GT(smooth.points.size(), 300u);
  for (const LossPoint& point : smooth.points)
    EXPECT_NEAR(point.loss / (3 * std::pow(point.compute, -0.1)), 1, 0.001) << point.compute;
}

// A window is as long as it says, and begins behind what is left out: losses of 1, from compute e² on of 2.
TEST(ScalingLaws, WindowsAreAsLongAsTheySay) {
  LossCurve curve{.run = "", .parameters = 1, .points = {}};
  for (int i = 0; i <= 400; ++i) {
    const double compute = std::exp(0.01 * i);
    curve.points.push_back({compute, compute, i < 200 ? 1.0 : 2.0});
  }
  const LossCurve smooth = smoothed(curve, 0.5, 0);
  double most_of_one = 0, least_of_two = 1e9;
  for (const LossPoint& point : smooth.points) {
    if (point.loss == 1) most_of_one = std::max(most_of_one, std::log(point.compute));
    if (point.loss == 2) least_of_two = std::min(least_of_two, std::log(point.compute));
  }
  EXPECT_NEAR(most_of_one, 1.99 - 0.25, 0.011) << "the last window without a 2";
  EXPECT_NEAR(least_of_two, 2 + 0.25, 0.011) << "the first window without a 1";
  const LossCurve late = smoothed(curve, 0.5, std::exp(-2.0) * 1.0001);
  for (const LossPoint& point : late.points)
    EXPECT_EQ(point.loss, 2) << "nothing before e² of e⁴ tokens is in a window";
}

// A second run alone has been to more compute than ten; until it is below what the first one reached, nothing
// of it is on the envelope.
TEST(ScalingLaws, WhatLessComputeHasBeatenIsNotOnTheEnvelope) {
  std::vector<LossCurve> curves(2);
  for (int i = 0; i <= 40; ++i) {
    const double compute = std::pow(10, i / 20.0);
    if (compute < 10.001) curves[0].points.push_back({compute, compute, 4 * std::pow(compute, -0.3)});
    if (compute > 4.999) curves[1].points.push_back({compute, compute, 12 * std::pow(compute, -0.5)});
  }
  // where the second one is as low
  const double reached = 4 * std::pow(10, -0.3), from = std::pow(12 / reached, 2);
  double before = 1e9;
  int64_t later = 0;
  for (const EnvelopePoint& point : envelope(curves, 100)) {
    EXPECT_LT(point.loss, before);
    before = point.loss;
    EXPECT_TRUE(point.compute < 10.001 || point.compute > from * 0.99) << point.compute;
    later += point.curve == 1 ? 1 : 0;
  }
  EXPECT_GT(later, 3);
}

TEST(ScalingLaws, RefuseNoRuns) {
  EXPECT_THROW(envelope({}, 10), Error);
  EXPECT_THROW(envelope(std::vector<LossCurve>(3), 10), Error);
}

// What 2406.16690 prints, to its rounding (parameters leave out norms: 0.3 %).
TEST(ScalingStudy, FormulasGiveThePrintedNumbers) {
  for (const StudyModel& model : study_models()) {
    for (size_t i = 0; i < 4; ++i) {
      const StudyArchitecture architecture = kStudyArchitectures[i];
      const StudyShape shape = model.shape_of(architecture);
      const double millions = study_parameters(architecture, shape) / 1e6;
      EXPECT_NEAR(millions, model.printed_parameters[i], 0.003 * model.printed_parameters[i])
          << model.name << " " << name_of(architecture);
      const double petaflops =
          study_training_flops(architecture, shape, kStudySequence, kStudyBatch * kStudySequence) / 1e15;
      EXPECT_NEAR(petaflops, model.printed_petaflops[i], 0.051) << model.name << " " << name_of(architecture);
    }
  }
  // docs/sources/linear-attention.md §12, of the 70M models
  const double expected[] = {1.633, 0.501, 0.483, 0.529};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(
        study_training_flops(kStudyArchitectures[i], study_models()[0].shape, 8192, 480 * 8192) / 1e15,
        expected[i], 0.0006);
  }
}

// MiniMax-01's formulas are an eighth of the softmax model's and seven of the lightning model's.
TEST(ScalingStudy, AHybridIsAnEighthOfSoftmax) {
  for (const StudyModel& model : study_models()) {
    const auto mixed = [&](const auto& of) {
      return of(StudyArchitecture::kLlama) / 8 + of(StudyArchitecture::kTnl) * 7 / 8;
    };
    const auto parameters = [&](StudyArchitecture each) { return study_parameters(each, model.shape); };
    const auto flops = [&](StudyArchitecture each) {
      return study_training_flops(each, model.shape, 8192, 480 * 8192);
    };
    EXPECT_NEAR(parameters(StudyArchitecture::kHybridLightning) / mixed(parameters), 1, 1e-12) << model.name;
    EXPECT_NEAR(flops(StudyArchitecture::kHybridLightning) / mixed(flops), 1, 1e-12) << model.name;
  }
}

TEST(ScalingStudy, PublishedLawsAreInOrder) {
  ASSERT_EQ(study_laws().size(), 5u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(study_laws()[i].architecture, kStudyArchitectures[i]);
  EXPECT_EQ(study_laws()[4].architecture, StudyArchitecture::kHybridLightning);
  EXPECT_NEAR(study_laws()[2].loss.at(1), 3.4788, 1e-12);  // at one PFLOP/s-day
}

}  // namespace
}  // namespace longhaul::plan
