// The scans against token-by-token sums in fp64, by finite differences, and at extremes.
#include "kernels/scan/op.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/instruction_sets.h"
#include "support/threads.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels::scan_test {
namespace {

using namespace longhaul::testing;

const std::vector<int64_t> kScanDocuments = {0, 1, 1, 8, 60};

std::vector<Tensor> scan_leaves(const std::vector<Tensor>& from, std::optional<at::ScalarType> type = {}) {
  std::vector<Tensor> to;
  for (const Tensor& each : from)
    to.push_back(each.defined() ? each.to(type.value_or(each.scalar_type())).clone().requires_grad_(true)
                                : Tensor());
  return to;
}

void expect_alike(const std::vector<Tensor>& found, const std::vector<Tensor>& in,
                  const std::vector<Tensor>& wanted, const std::vector<Tensor>& again, double tolerance) {
  Tensor sum = at::zeros({}, at::kDouble), other = at::zeros({}, at::kDouble);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_LT(relative_error(found[i], wanted[i]), tolerance) << "result " << i;
    const Tensor mix = random_tensor(found[i].sizes(), 40 + i);
    sum = sum + found[i].to(at::kDouble).mul(mix).sum();
    other = other + wanted[i].mul(mix).sum();
  }
  sum.backward();
  other.backward();
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in[i].defined()) continue;
    EXPECT_LT(relative_error(in[i].grad(), again[i].grad()), tolerance) << "gradient " << i;
  }
}

const std::pair<at::ScalarType, double> kScanTypes[] = {
    {at::kDouble, 1e-12}, {at::kFloat, 1e-5}, {at::kBFloat16, 1e-2}};

TEST(Scan, DecayedSumEqualsTheLoop) {
  const PoisonFreshMemory poison;
  const Tensor offsets = to_tensor(kScanDocuments);
  for_each_instruction_set([&] {
    for (const auto& [type, tolerance] : kScanTypes) {
      const at::ScalarType wide = type == at::kDouble ? at::kDouble : at::kFloat;
      for (const int64_t channels : {3, 150}) {
        for (const bool state : {false, true}) {
          const std::vector<Tensor> values{random_tensor({60, channels}, 1, wide).sigmoid(),
                                           random_tensor({60, channels}, 2, type),
                                           state ? random_tensor({4, channels}, 3, wide) : Tensor()};
          const auto in = scan_leaves(values), again = scan_leaves(values, at::kDouble);
          const DecayedSum found = decayed_sum(in[0], in[1], offsets, in[2]);
          const DecayedSum wanted = decayed_sum_reference(again[0], again[1], offsets, again[2]);
          expect_alike({found.h_tc, found.final_state_nc}, in, {wanted.h_tc, wanted.final_state_nc}, again,
                       tolerance);
        }
      }
    }
  });
}

TEST(Scan, CumulativeSoftmaxEqualsTheLoop) {
  const PoisonFreshMemory poison;
  const std::vector<int64_t> documents{0, 1, 8, 60};
  const Tensor offsets = to_tensor(documents);
  for_each_instruction_set([&] {
    for (const auto& [type, tolerance] : kScanTypes) {
      const at::ScalarType wide = type == at::kDouble ? at::kDouble : at::kFloat;
      for (const int64_t channels : {3, 150}) {
        for (const bool state : {false, true}) {
          const std::vector<Tensor> values{random_tensor({60, channels}, 1, type).mul(3),
                                           state ? random_tensor({3, channels}, 3, wide) : Tensor()};
          const auto in = scan_leaves(values), again = scan_leaves(values, at::kDouble);
          const CumulativeSoftmax found = cumulative_softmax(in[0], offsets, in[1]);
          const CumulativeSoftmax wanted = cumulative_softmax_reference(again[0], offsets, again[1]);
          expect_alike({found.k_tc, found.log_decay_tc, found.final_state_nc}, in,
                       {wanted.k_tc, wanted.log_decay_tc, wanted.final_state_nc}, again, tolerance);
        }
      }
    }
  });
}

// The definition, without running sums: softmax over the tokens so far.
TEST(Scan, CumulativeSoftmaxIsItsDefinition) {
  const Tensor x = random_tensor({9, 4}, 1), offsets = to_tensor(std::vector<int64_t>{0, 3, 9});
  const CumulativeSoftmax found = cumulative_softmax(x, offsets, {});
  for (int64_t t = 0; t < 9; ++t) {
    const int64_t begin = t < 3 ? 0 : 3;
    const Tensor share = x.narrow(0, begin, t - begin + 1).softmax(0);
    EXPECT_LT(relative_error(found.k_tc[t], share[t - begin]), 1e-13) << t;
    const Tensor kept = t > begin ? 1 - share[t - begin] : at::ones({4}, at::kDouble);
    EXPECT_LT(relative_error(found.log_decay_tc[t].exp(), kept), 1e-13) << t;
  }
  // x = 0: λ_t = (t − 1)/t.
  const CumulativeSoftmax flat = cumulative_softmax(at::zeros({100, 3}, at::kDouble), {}, {});
  for (int64_t t = 1; t < 100; ++t)
    EXPECT_NEAR(flat.log_decay_tc[t][1].exp().item<double>(),
                static_cast<double>(t) / static_cast<double>(t + 1), 1e-13);
}

TEST(Scan, Gradients) {
  const Tensor offsets = to_tensor(std::vector<int64_t>{0, 2, 9});
  const Tensor mix = random_tensor({9, 3}, 5), other = random_tensor({9, 3}, 6),
               last = random_tensor({2, 3}, 7);
  check_gradients(
      [&](const std::vector<Tensor>& in) {
        const auto out = decayed_sum(in[0].sigmoid(), in[1], offsets, in[2]);
        return out.h_tc.mul(mix).sum() + out.final_state_nc.mul(last).sum();
      },
      {random_tensor({9, 3}, 1), random_tensor({9, 3}, 2), random_tensor({2, 3}, 3)});
  for (const bool state : {false, true}) {
    std::vector<Tensor> values{random_tensor({9, 3}, 1)};
    if (state) values.push_back(random_tensor({2, 3}, 3));
    check_gradients(
        [&](const std::vector<Tensor>& in) {
          const auto out = cumulative_softmax(in[0], offsets, in.size() > 1 ? in[1] : Tensor());
          return out.k_tc.mul(mix).sum() + out.log_decay_tc.mul(other).sum() +
                 out.final_state_nc.mul(last).sum();
        },
        values);
  }
}

// Token by token from the states equals the whole, to the bit; a sequence of zeros as a state is an empty
// one.
TEST(Scan, ContinuesToTheBit) {
  const Tensor x = random_tensor({11, 20}, 1, at::kFloat),
               a = random_tensor({11, 20}, 2, at::kFloat).sigmoid();
  const Tensor h = decayed_sum(a, x, {}, {}).h_tc, k = cumulative_softmax(x, {}, {}).k_tc;
  const Tensor sums = at::zeros({3, 20}), logs = at::zeros({3, 20}), begun = at::zeros({3, 20});
  sums[0].fill_(7), logs[0].fill_(7);
  const std::vector<int64_t> rows{2};
  for (const auto& [begin, length] : {std::pair<int64_t, int64_t>{0, 5}, {5, 1}, {6, 5}}) {
    EXPECT_TRUE(
        decayed_sum_continued(a.narrow(0, begin, length), x.narrow(0, begin, length), {sums, rows}, {})
            .equal(h.narrow(0, begin, length)));
    EXPECT_TRUE(cumulative_softmax_continued(x.narrow(0, begin, length), {logs, rows, begun}, {})
                    .k_tc.equal(k.narrow(0, begin, length)));
  }
  EXPECT_TRUE(sums[0].eq(7).all().item<bool>() && logs[0].eq(7).all().item<bool>());
}

TEST(Scan, ExtremesStayFinite) {
  const Tensor x = at::tensor({1e4f, -1e4f, 0.f, 3e4f, 3e4f, -3e4f}).view({6, 1}).requires_grad_(true);
  const auto out = cumulative_softmax(x, {}, {});
  EXPECT_TRUE(out.k_tc.isfinite().all().item<bool>() && out.log_decay_tc.isfinite().all().item<bool>());
  EXPECT_TRUE(out.log_decay_tc.le(0).all().item<bool>());
  EXPECT_NEAR(out.k_tc[4].item<float>(), 0.5f, 2e-3f) << "z = 3e4 has steps of 2e-3";
  (out.k_tc.sum() + out.log_decay_tc.sum()).backward();
  EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
}

TEST(Scan, RefusesWhatDoesNotFit) {
  const Tensor x = at::zeros({4, 6});
  EXPECT_THROW(decayed_sum(at::zeros({4, 5}), x, {}, {}), Error);
  EXPECT_THROW(decayed_sum(x, x, {}, at::zeros({2, 6})), Error);
  EXPECT_THROW(cumulative_softmax(x.view({24}), {}, {}), Error);
}

}  // namespace
}  // namespace longhaul::kernels::scan_test
