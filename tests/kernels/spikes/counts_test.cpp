// Counts of spikes, and codings: by hand, by the values that a normal distribution has, and back again.
#include "kernels/spikes/counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "kernels/spikes/codings.h"
#include "kernels/spikes/statistics.h"
#include "support/instruction_sets.h"
#include "support/refused.h"
#include "support/tensors.h"

namespace longhaul::kernels::spike_counts_test {
namespace {

using namespace longhaul::testing;

Tensor row(std::vector<float> numbers) {
  return at::tensor(numbers).view({1, static_cast<int64_t>(numbers.size())});
}

TEST(SpikeCounts, ByHand) {
  // mean |x| = 1.5, k = 3: a threshold of 0.5
  const SpikeCounts made = spike_counts(row({3, -1, 1, -1}), 3);
  EXPECT_EQ(made.threshold_t[0].item<float>(), 0.5f);
  EXPECT_TRUE(made.count_tc.equal(row({6, -2, 2, -2})));
  EXPECT_TRUE(spiked(row({3, -1, 1, -1}), 3).equal(row({3, -1, 1, -1})));
  // threshold 1: halves go to the even number
  EXPECT_TRUE(spike_counts(row({0.5, -0.5, 1.5, -1.5, 1}), 1).count_tc.equal(row({0, 0, 2, -2, 1})));
  EXPECT_TRUE(spike_counts(row({2.5, 0.5, -0.5, 0.5}), 1).count_tc.equal(row({2, 0, 0, 0})));
  // the threshold is kept within its limits
  EXPECT_EQ(spike_counts(row({0, 0}), 3).threshold_t[0].item<float>(), 1e-5f);
  const SpikeCounts large = spike_counts(row({1e6, -2e6}), 3);
  EXPECT_EQ(large.threshold_t[0].item<float>(), 1e4f);
  EXPECT_TRUE(large.count_tc.equal(row({100, -200})));
}

TEST(SpikeCounts, AreOfEachTokenAloneAndTheSameForEveryInstructionSet) {
  const Tensor x = random_tensor({7, 301}, 4).mul(random_tensor({7, 1}, 5).exp()).to(at::kFloat);
  for (const ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Tensor typed = x.to(type);
    const SpikeCounts first = spike_counts(typed, 3);
    for_each_instruction_set([&] {
      const SpikeCounts all = spike_counts(typed, 3);
      EXPECT_TRUE(all.count_tc.equal(first.count_tc));
      EXPECT_TRUE(all.threshold_t.equal(first.threshold_t));
      for (int64_t t = 0; t < 7; ++t) {
        const SpikeCounts one = spike_counts(typed.narrow(0, t, 1), 3);
        EXPECT_TRUE(one.count_tc.equal(all.count_tc.narrow(0, t, 1)));
      }
      const Tensor seen = spiked(typed, 3);
      EXPECT_TRUE(seen.equal(all.count_tc.mul(all.threshold_t.unsqueeze(1)).to(type)));
      EXPECT_TRUE(spike_counts(typed.t().contiguous().t(), 3).count_tc.equal(all.count_tc)) << "any strides";
    });
    // threshold and counts in fp64
    const Tensor wide = typed.to(at::kDouble), threshold = wide.abs().mean(1).div(3);
    EXPECT_LT(relative_error(first.threshold_t, threshold), 1e-7);
    EXPECT_LE((first.count_tc.to(at::kDouble) - wide.div(threshold.unsqueeze(1))).abs().max().item<double>(),
              0.5 + 1e-4);
  }
}

// A sum in bf16 stops growing at 256, and one in fp32 loses digits.
TEST(SpikeCounts, TheMeanOfManyChannelsIsExact) {
  const Tensor x = at::full({1, 18944}, 1.0, at::kBFloat16);
  x[0][0] = 3;
  EXPECT_EQ(spike_counts(x, 1).threshold_t[0].item<float>(), static_cast<float>(18946.0 / 18944.0));
  for (uint64_t seed = 1; seed < 6; ++seed) {  // of which sums in fp32 differ in the last digits
    const Tensor normal = random_tensor({1, 100'003}, seed, at::kFloat);
    const double mean = normal.to(at::kDouble).abs().mean().item<double>();
    EXPECT_EQ(spike_counts(normal, 3).threshold_t[0].item<float>(), static_cast<float>(mean / 3));
  }
}

// Worked out by the authors of the specification for 4 · 10⁶ numbers, and P(0) = erf(0.39894 / (k √2)).
TEST(SpikeCounts, OfNormalNumbers) {
  const Tensor normal = random_tensor({1, 1'000'000}, 8, at::kFloat);
  const Tensor even = at::rand({1, 1'000'000}, at::detail::createCPUGenerator(9), at::kFloat).sub(0.5);
  const Tensor laplace = even.sign().mul(even.abs().mul(-2).log1p()).neg();
  struct Known {
    const Tensor& x;
    double k, silent, up_to_7, spikes;
  };
  for (const Known& known :
       {Known{normal, 2, 0.1581, 0.9972, 1.0753}, Known{normal, 3, 0.1058, 0.9538, 1.2991},
        Known{normal, 4, 0.0794, 0.8654, 1.4643}, Known{laplace, 3, 0.1536, 0.9179, 1.2226}}) {
    SCOPED_TRACE(known.k);
    SpikeStatistics statistics(Coding::kSignedBits);
    statistics.add("x", spike_counts(known.x, known.k).count_tc);
    const SpikeSums sums = statistics.total();
    EXPECT_NEAR(sums.silent_share(), known.silent, 0.002);
    EXPECT_NEAR(sums.up_to(7), known.up_to_7, 0.002);
    EXPECT_NEAR(sums.mean_spikes(), known.spikes, 0.004);
  }
}

// By hand: means of sizes 2 and 1.5, so thresholds 2/3 and 1/2.
TEST(SpikeCounts, InFp64AsProofsCompute) {
  const Tensor x = at::tensor({1.0, -3.0, 2.0, 0.25, -1.75, 2.5}, at::kDouble).view({2, 3});
  const SpikeCounts counts = spike_counts(x, 3);
  EXPECT_EQ(counts.count_tc.scalar_type(), at::kDouble);
  EXPECT_TRUE(counts.threshold_t.equal(at::tensor({2.0 / 3, 0.5}, at::kDouble)));
  // 1.5, −4.5 and 3 steps of 2/3, rounded to even; half a step of 1/2 to even, −3.5 and 5
  EXPECT_TRUE(counts.count_tc.equal(at::tensor({2.0, -4.0, 3.0, 0.0, -4.0, 5.0}, at::kDouble).view({2, 3})));
  EXPECT_TRUE(spiked(x, 3).equal(counts.count_tc.mul(counts.threshold_t.unsqueeze(1))));
  EXPECT_THAT(refused([] {
                spike_counts(at::zeros({2, 3}, at::kLong), 3);
              }),
              ::testing::HasSubstr("of numbers"));
}

// By hand, over two passes: count · threshold of channel 0 is 2, −4 and 3, of channel 1 is 0, 1 and 0.
TEST(SpikeStatistics, SquaresWhatAMatrixReads) {
  SpikeStatistics statistics(Coding::kSignedBits);
  statistics.gather_squares();
  statistics.add_squares("up", at::tensor({4.0F, 0.0F, -2.0F, 0.5F}).view({2, 2}), at::tensor({0.5F, 2.0F}));
  statistics.add_squares("up", at::tensor({3.0F, 0.0F}).view({1, 2}), at::tensor({1.0F}));
  const auto means = statistics.mean_squares();
  ASSERT_EQ(means.size(), 1U);
  EXPECT_TRUE(means.at("up").allclose(at::tensor({29.0 / 3, 1.0 / 3}, at::kDouble)));
}

// What is kept for a picture: of the named matrix, the first tokens, over several passes, and channels.
TEST(SpikeStatistics, KeepsTheFirstOfAMatrix) {
  SpikeStatistics statistics(Coding::kSignedBits);
  statistics.keep("layers.1.", 3, 2);
  const Tensor first = at::tensor({1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, at::kFloat).view({2, 3});
  statistics.add("layers.1.up", first);
  statistics.add("layers.1.up", first.neg());
  statistics.add("layers.11.up", first);
  const auto kept = statistics.kept();
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(kept[0].first, "layers.1.up");
  EXPECT_TRUE(kept[0].second.equal(at::tensor({1.0, 2.0, 4.0, 5.0, -1.0, -2.0}, at::kFloat).view({3, 2})));
  EXPECT_EQ(statistics.total().counts, 18);
}

constexpr Coding kCodings[] = {Coding::kBinary, Coding::kTernary, Coding::kUnsignedBits, Coding::kSignedBits,
                               Coding::kTwosComplement};

TEST(Codings, GiveBackEveryCount) {
  const Tensor all = at::arange(-255, 256).view({1, 511});
  const Tensor each = at::arange(-255, 256).view({511, 1}), unsigned_ones = at::arange(0, 257).view({257, 1});
  for (const Coding coding : kCodings) {
    SCOPED_TRACE(name_of(coding));
    for (const bool centred : {false, true}) {
      for (const Tensor& counts : {all, each, unsigned_ones, at::zeros({2, 3}), at::zeros({0, 3})}) {
        const SpikeTrain train = encode(counts, coding, centred);
        EXPECT_TRUE(decode(train).equal(counts.to(at::kLong)));
        const bool signs = coding == Coding::kTernary || coding == Coding::kSignedBits;
        if (train.spike_stc.numel() == 0) continue;
        EXPECT_GE(train.spike_stc.min().item<int8_t>(), signs ? -1 : 0);
        EXPECT_LE(train.spike_stc.max().item<int8_t>(), 1);
      }
    }
  }
}

TEST(Codings, TakeTheStepsOfThePaper) {
  const auto steps = [](int64_t count, Coding coding, bool centred = false) {
    return encode(at::tensor({count, int64_t{0}}).view({1, 2}), coding, centred).spike_stc.size(0);
  };
  EXPECT_EQ(steps(256, Coding::kBinary), 256);
  EXPECT_EQ(steps(256, Coding::kTernary), 256);
  EXPECT_EQ(steps(256, Coding::kTernary, /*centred=*/true), 128);
  EXPECT_EQ(steps(256, Coding::kUnsignedBits), 9);
  EXPECT_EQ(steps(255, Coding::kUnsignedBits), 8);
  EXPECT_EQ(steps(-127, Coding::kSignedBits), 7);
  EXPECT_EQ(steps(127, Coding::kSignedBits), 7);
  EXPECT_EQ(steps(255, Coding::kSignedBits, /*centred=*/true), 8);
  EXPECT_EQ(steps(-128, Coding::kTwosComplement), 9);
  EXPECT_EQ(steps(1, Coding::kTwosComplement), 2);
  EXPECT_EQ(steps(0, Coding::kUnsignedBits), 1);
  EXPECT_EQ(steps(-3, Coding::kBinary), 3) << "shifted by the smallest";
}

TEST(Codings, WeighTheirDigits) {
  const SpikeTrain train = encode(at::tensor({-6, 5}).view({1, 2}), Coding::kTwosComplement);
  EXPECT_EQ(train.weights, (std::vector<int64_t>{-8, 4, 2, 1}));
  EXPECT_TRUE(train.spike_stc.select(2, 0).flatten().equal(at::tensor({1, 0, 1, 0}, at::kChar)));
  EXPECT_TRUE(train.spike_stc.select(2, 1).flatten().equal(at::tensor({0, 1, 0, 1}, at::kChar)));
  const SpikeTrain signs = encode(at::tensor({-6, 5}).view({1, 2}), Coding::kSignedBits);
  EXPECT_EQ(signs.weights, (std::vector<int64_t>{4, 2, 1}));
  EXPECT_TRUE(signs.spike_stc.select(2, 0).flatten().equal(at::tensor({-1, -1, 0}, at::kChar)));
}

// What is counted without a train is what the train of each token has.
TEST(Codings, SpikesAndStepsAreThoseOfTheTrain) {
  const Tensor counts = spike_counts(random_tensor({5, 40}, 3, at::kFloat), 4).count_tc;
  for (const Coding coding : kCodings) {
    SCOPED_TRACE(name_of(coding));
    for (int64_t t = 0; t < counts.size(0); ++t) {
      const Tensor one = counts.narrow(0, t, 1);
      const SpikeTrain train = encode(one, coding);
      EXPECT_EQ(steps_of(one, coding).item<int64_t>(), train.spike_stc.size(0));
      EXPECT_TRUE(spikes_of(one, coding).equal(train.spike_stc.abs().to(at::kLong).sum(0)));
      EXPECT_TRUE(spikes_of(counts, coding).narrow(0, t, 1).equal(spikes_of(one, coding)));
    }
  }
}

TEST(SpikeStatistics, BothSparsitiesAndTheModelOfEnergy) {
  SpikeStatistics statistics(Coding::kSignedBits);
  // spikes: 0, 1, 2, 1 and 0, 1, 0, 3: eight, of five counts that are not 0
  statistics.add("a", at::tensor({0.0f, 1.0f, -3.0f, 4.0f, 0.0f, -2.0f, 0.0f, 7.0f}).view({2, 4}));
  statistics.add("b", at::tensor({0.0f, 20.0f}).view({1, 2}));
  const SpikeSums a = statistics.of_matrices()[0].second, all = statistics.total();
  EXPECT_DOUBLE_EQ(a.mean_spikes(), 8.0 / 8);
  EXPECT_DOUBLE_EQ(a.mean_spikes_of_firing(), 8.0 / 5);
  EXPECT_DOUBLE_EQ(a.sparsity(), 1 - 1.0 / 3);
  EXPECT_DOUBLE_EQ(a.sparsity_of_firing(), 1 - 1.6 / 3);
  EXPECT_DOUBLE_EQ(a.sparsity_of_trains(), 1 - 8.0 / 24) << "both tokens have three steps";
  EXPECT_DOUBLE_EQ(a.silent_share(), 3.0 / 8);
  EXPECT_EQ(a.channels, 4);
  EXPECT_EQ(a.never_fired, 1);
  EXPECT_EQ(all.largest, 20);
  EXPECT_EQ(all.never_fired, 2);
  EXPECT_DOUBLE_EQ(all.up_to(16), 9.0 / 10);
  EXPECT_DOUBLE_EQ(all.sparsity_of_trains(), 1 - 10.0 / (24 + 10));
  EXPECT_NEAR(energy_of(a).spiking, 0.03, 1e-12);
  EXPECT_NEAR(energy_of(a).over_fp16(), 50, 1e-9);
  EXPECT_NEAR(energy_of(a).over_int8(), 0.23 / 0.03, 1e-9);
}

}  // namespace
}  // namespace longhaul::kernels::spike_counts_test
