// SortedByExpert against loops over tokens: all choices of all experts, those of a run of experts, and those
// that were not dropped; backward through both ways.
#include "kernels/experts/sorted.h"

#include <gtest/gtest.h>

#include "support/tensors.h"

namespace longhaul::kernels::sorted_test {
namespace {

constexpr int64_t kOfAll = 5, kPerToken = 3, kWidth = 7;

// Token t's choices; −1 here and there where some are dropped.
Tensor choices(int64_t tokens, bool drop) {
  const Tensor choice = at::empty({tokens, kPerToken}, at::kLong);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t k = 0; k < kPerToken; ++k)
      choice[t][k] = drop && (t + 2 * k) % 4 == 1 ? -1 : (t * t + 2 * k) % kOfAll;
  }
  return choice;
}

struct SortedCase {
  ExpertRange of;
  bool drop;
};

// Expert e takes its rows times (e + 2). The answer and its gradients by loops, in fp64.
void check_sorted(const SortedCase& test, int64_t tokens, at::ScalarType type, double bound) {
  const Tensor choice = choices(tokens, test.drop);
  const bool every = !test.drop && test.of.count == kOfAll;
  const SortedByExpert sorted(choice, test.of, every);
  const at::ScalarType wide = type == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor x = longhaul::testing::random_tensor({tokens, kWidth}, 1).to(type).requires_grad_(true);
  const Tensor weight =
      longhaul::testing::random_tensor({tokens, kPerToken}, 2).to(wide).requires_grad_(true);
  const Tensor d_out = longhaul::testing::random_tensor({tokens, kWidth}, 3).to(type);
  ASSERT_EQ(static_cast<int64_t>(sorted.rows_per_expert().size()), test.of.count);
  std::vector<Tensor> parts = sorted.rows(x).split_with_sizes(sorted.rows_per_expert());
  for (size_t e = 0; e < parts.size(); ++e)
    parts[e] = parts[e] * static_cast<double>(test.of.first + static_cast<int64_t>(e) + 2);
  const Tensor out = sorted.back(at::cat(parts), weight);
  out.backward(d_out);

  const Tensor x64 = x.detach().to(at::kDouble), w64 = weight.detach().to(at::kDouble),
               d64 = d_out.to(at::kDouble);
  const Tensor expected = at::zeros_like(x64), dx = at::zeros_like(x64), dw = at::zeros_like(w64);
  std::vector<int64_t> counts(static_cast<size_t>(test.of.count));
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t k = 0; k < kPerToken; ++k) {
      const int64_t e = choice[t][k].item<int64_t>();
      if (e < test.of.first || e >= test.of.first + test.of.count) continue;
      ++counts[static_cast<size_t>(e - test.of.first)];
      const Tensor factor = w64[t][k] * static_cast<double>(e + 2);
      expected[t] += factor * x64[t];
      dx[t] += factor * d64[t];
      dw[t][k] = d64[t].dot(x64[t]) * static_cast<double>(e + 2);
    }
  }
  EXPECT_EQ(sorted.rows_per_expert(), counts);
  const auto far = [&](const Tensor& found, const Tensor& from) {
    return tokens == 0 ? 0 : found.detach().to(at::kDouble).sub(from).abs().max().item<double>();
  };
  EXPECT_LE(far(out, expected), bound);
  EXPECT_LE(far(x.grad(), dx), bound);
  EXPECT_LE(far(weight.grad(), dw), bound);
}

// Numbers up to some hundred: bf16 rounds rows, results and gradients to 2^-8 of them.
TEST(SortedByExpertTest, IsWhatLoopsOverTokensGive) {
  for (const SortedCase& test : {SortedCase{{0, kOfAll}, false},
                                 {{0, kOfAll}, true},
                                 {{1, 2}, false},
                                 {{3, 2}, true},
                                 {{4, 1}, false}}) {
    for (const int64_t tokens : {0, 1, 11, 40}) {
      SCOPED_TRACE(::testing::Message() << test.of.first << " + " << test.of.count << " dropped " << test.drop
                                        << " tokens " << tokens);
      check_sorted(test, tokens, at::kDouble, 1e-12);
      check_sorted(test, tokens, at::kFloat, 1e-4);
      check_sorted(test, tokens, at::kBFloat16, 1.0);
    }
  }
}

}  // namespace
}  // namespace longhaul::kernels::sorted_test
