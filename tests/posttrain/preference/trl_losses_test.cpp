// The losses beside those of TRL 1.16.0 (with torch 2.13.0) for the same log-probabilities in fp64, and their
// gradients in each of them: tests/peer/preference_losses.py prints the numbers. TRL computes the odds ratio
// of orpo in fp32.
#include <gtest/gtest.h>

#include <functional>

#include "posttrain/preference/losses.h"

namespace longhaul::posttrain {
namespace {

using enum PreferenceLoss;
constexpr int64_t kTrlPairs = 6;
using TrlNumbers = std::vector<double>;  // of the chosen answers, then of the rejected ones

const TrlNumbers kTrlLengths = {3.0, 3.0, 3.0, 2.0, 6.0, 8.0, 5.0, 5.0, 2.0, 6.0, 5.0, 5.0};
const TrlNumbers kTrlPolicy = {-0.25327953519256574, -1.5626659754665129, -2.387712832569719,
                               -1.5192498480839514,  -0.8998304254524063, -1.7337388352591176,
                               -1.5518533463208173,  -2.8673290983789923, -0.5258134227280522,
                               -5.644389861020688,   -1.191571580459072,  -3.2427009915855054};
const TrlNumbers kTrlReference = {-0.000951542675628303, -1.2777305927722504,  -2.250910370644451,
                                  -0.40344587308450763,  -0.43782704335104317, -1.7386375126752698,
                                  -1.3095632355028566,   -2.660507695788824,   0.7124375622972616,
                                  -6.521984605752531,    -1.7057449147686374,  -3.1016884732798604};
const TrlNumbers kTrlGood = {1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0};

// The losses of a batch are means.
void expect_as_trl(const std::function<Tensor(const Tensor& policy_n)>& loss_of, double loss,
                   const TrlNumbers& gradient, double most) {
  const Tensor policy_n = at::tensor(kTrlPolicy, at::kDouble).requires_grad_(true);
  const Tensor found = loss_of(policy_n).mean();
  EXPECT_NEAR(found.item<double>(), loss, most);
  found.backward();
  for (size_t i = 0; i < gradient.size(); ++i)
    EXPECT_NEAR(policy_n.grad()[static_cast<int64_t>(i)].item<double>(), gradient[i], most) << i;
}

AnswerScores trl_half(const Tensor& policy_n, int64_t half) {
  const auto part = [&](const TrlNumbers& all) {
    return at::tensor(all, at::kDouble).narrow(0, half * kTrlPairs, kTrlPairs);
  };
  return {policy_n.narrow(0, half * kTrlPairs, kTrlPairs), part(kTrlReference), part(kTrlLengths)};
}

void expect_pairs_as_trl(PreferenceLoss kind, const LossNumbers& numbers, double loss,
                         const TrlNumbers& gradient, double most = 1e-14) {
  expect_as_trl(
      [&](const Tensor& policy_n) {
        return pair_loss(kind, trl_half(policy_n, 0), trl_half(policy_n, 1), numbers);
      },
      loss, gradient, most);
}

TEST(LossesBesideTrl, Dpo) {
  expect_pairs_as_trl(
      kDpo, {.beta = 0.25}, 0.7388327285364986,
      {-0.02085947363653966, -0.021036748691986167, -0.017982965679826858, -0.02591964256468233,
       -0.023362917985660456, -0.020453398389603854, 0.020859473636539665, 0.021036748691986164,
       0.017982965679826858, 0.025919642564682325, 0.02336291798566046, 0.020453398389603854});
}

TEST(LossesBesideTrl, DpoWithLabelSmoothing) {
  expect_pairs_as_trl(
      kDpo, {.beta = 0.25, .label_smoothing = 0.1}, 0.7312895302901509,
      {-0.016692806969873, -0.016870082025319498, -0.01381629901316019, -0.021752975898015663,
       -0.019196251318993794, -0.016286731722937188, 0.016692806969873, 0.016870082025319498,
       0.01381629901316019, 0.021752975898015663, 0.019196251318993794, 0.016286731722937188});
}

TEST(LossesBesideTrl, Ipo) {
  expect_pairs_as_trl(kIpo, {.beta = 0.4, .per_token = true}, 1.8607369632711086,
                      {-0.14285014540837632, -0.1448460200422282, -0.07516392534767768, -0.325694629714727,
                       -0.07943529058585964, -0.050882715069243835, 0.0857100872450258, 0.08690761202533692,
                       0.11274588802151653, 0.10856487657157567, 0.09532234870303156, 0.08141234411079014});
}

TEST(LossesBesideTrl, Simpo) {
  expect_pairs_as_trl(
      kSimpo, {.beta = 2, .label_smoothing = 0.05, .gamma = 0.5}, 0.9062973706912193,
      {-0.05133617796113182, -0.06082762791933339, -0.08635688144709801, -0.08073204094812368,
       -0.02945177175973748, -0.015003222295247209, 0.030801706776679087, 0.036496576751600035,
       0.129535322170647, 0.026910680316041227, 0.035342126111684975, 0.024005155672395535});
}

TEST(LossesBesideTrl, Orpo) {
  expect_pairs_as_trl(
      kOrpo, {.beta = 0.2}, 0.5452886005874361,
      {-0.08230177892578973, -0.06838595453235838, -0.07178807341390185, -0.09653089692195256,
       -0.04275645357039239, -0.025314838004608948, 0.0048692520707845684, 0.007161594927310944,
       0.057802993804216385, 0.003839962805310885, 0.011805298924446105, 0.002927755191922188},
      1e-7);
}

// TRL takes the mean over each batch of a divergence that was measured on answers to other prompts, as we do.
TEST(LossesBesideTrl, Kto) {
  const double divergence =
      mismatched_divergence(at::tensor({-9.0, -7.5}, at::kDouble), at::tensor({-9.5, -7.75}, at::kDouble));
  const auto loss_of = [&](const Tensor& policy_n) {
    const AnswerScores all = {policy_n, at::tensor(kTrlReference, at::kDouble),
                              at::tensor(kTrlLengths, at::kDouble)};
    return kto_loss(all, at::tensor(kTrlGood, at::kDouble), divergence,
                    {.beta = 0.3, .desirable_weight = 1.25, .undesirable_weight = 0.75});
  };
  expect_as_trl(loss_of, 0.5244080703270089,
                {-0.0077437292945049295, 0.004641865218951946, 0.00465998151725871, -0.007434491158701319,
                 -0.0076906347593698994, 0.004673083049680034, -0.007745900059424704, 0.004651977636006575,
                 -0.007372299986881679, -0.007768265098740464, 0.004685457746275031, 0.0046595287349889564},
                1e-14);
}

}  // namespace
}  // namespace longhaul::posttrain
