// attention and attention_paged by their "cuda" entries, as cuda_emulated_calls_test.cpp tests the other
// operators. ctest: label=fast timeout=240
#include <gtest/gtest.h>

#include "emulated_calls.h"
#include "kernels/attention/attention_cases.h"
#include "kernels/attention/paged/paged.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels::cuda_calls_test {
namespace {

// LibTorch's flash attention would come first (flash_attention_test).
struct ForcedKernels {
  ForcedKernels() { Dispatcher::force("attention", "cuda"); }
  ~ForcedKernels() { Dispatcher::force("attention", std::nullopt); }
};

class CudaCallsAttention : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(CudaCallsAttention, EqualsReference) {
  const AttentionCase& c = GetParam();
  const AttentionInputs in = longhaul::testing::inputs_of(c, kBf16);
  const bool in_one = c.offsets == c.key_offsets && c.key == c.value;
  if (!c.causal) GTEST_SKIP() << "it refuses: any_device_test";
  if (c.key_offsets.back() * c.offsets.back() * c.heads * (c.key + c.value) > 40'000'000)
    GTEST_SKIP() << "slow when emulated";
  const auto run = [&](const AttentionInputs& x) { return c.call(attention, x, 0.3); };
  const AttentionEvaluation expected = longhaul::testing::evaluate(
      in.to(at::kDouble), [&](const AttentionInputs& x) { return c.call(attention_reference, x, 0.3); });
  const OnEmulatedGpu gpu;
  const ForcedKernels forced;
  // See cases.toml for the tolerance.
  expect_same(longhaul::testing::evaluate(in_one ? in.in_one_tensor() : in, run), expected, 1.5e-2);
  expect_cuda("attention");
}
INSTANTIATE_TEST_SUITE_P(Cases, CudaCallsAttention, ::testing::ValuesIn(attention_cases()));

TEST(CudaCallsAttentionOther, WithoutGradientOfTheLogsumexp) {
  expect_like_fp64(
      {"attention"},
      [](at::ScalarType type) {
        std::optional<ForcedKernels> forced;
        if (type == kBf16) forced.emplace();
        const Tensor q = emulated_leaf({70, 2, 16}, 1, type), k = emulated_leaf({70, 1, 16}, 2, type),
                     v = emulated_leaf({70, 1, 16}, 3, type);
        const Tensor o =
            attention(q, k, v, to_tensor(std::vector<int64_t>{0, 30, 70}), Tensor(), {.scale = 0.25}).o_thd;
        o.backward(rounded({70, 2, 16}, 4, type));
        return std::vector<Tensor>{o.detach(), q.grad(), k.grad(), v.grad()};
      },
      1e-2);  // softmax and its gradient are rounded before the products
}

// One new token for each of several caches that end inside, at and beyond pages.
TEST(CudaCallsAttentionOther, OneNewTokenReadsThePages) {
  for (const int64_t window : {0, 100}) {
    expect_like_fp64({"attention_paged"}, [window](at::ScalarType type) {
      const std::vector<int64_t> lengths = {300, 1, 256, 770}, rows = {2, 0, 4, 3};
      KeyValueCache cache({.heads = 2, .key = 20, .value = 12, .options = type});
      cache.grow(5);
      for (size_t n = 0; n < lengths.size(); ++n) {
        for (const int64_t part : {lengths[n] - 1, int64_t{1}}) {
          cache.append(std::span(&rows[n], 1), std::vector<int64_t>{0, part},
                       rounded({part, 2, 20}, 1 + n + static_cast<uint64_t>(part), type),
                       rounded({part, 2, 12}, 9 + n, type));
        }
      }
      const Tensor q = rounded({4, 6, 40}, 3, type).slice(2, 0, 40, 2);
      const AttentionResult result = attention_paged(q, to_tensor(std::vector<int64_t>{0, 1, 2, 3, 4}), cache,
                                                     rows, {.scale = 0.25, .window = window});
      return std::vector<Tensor>{result.o_thd, result.logsumexp_th};
    });
  }
}

// Several new tokens: the pages are copied together, as nothing is gained by reading them in place once per
// token.
TEST(CudaCallsAttentionOther, SeveralNewTokensGatherTheCache) {
  Dispatcher::force("attention_paged", "gathered");
  expect_like_fp64({"attention"}, [](at::ScalarType type) {
    std::optional<ForcedKernels> forced;
    if (type == kBf16) forced.emplace();
    KeyValueCache cache({.heads = 1, .key = 16, .value = 16, .options = type});
    cache.grow(1);
    const std::vector<int64_t> rows = {0};
    cache.append(rows, std::vector<int64_t>{0, 300}, rounded({300, 1, 16}, 1, type),
                 rounded({300, 1, 16}, 2, type));
    return std::vector<Tensor>{
        attention_paged(rounded({2, 4, 16}, 3, type), Tensor(), cache, rows, {.scale = 0.25}).o_thd};
  });
  Dispatcher::force("attention_paged", std::nullopt);
}

}  // namespace
}  // namespace longhaul::kernels::cuda_calls_test
