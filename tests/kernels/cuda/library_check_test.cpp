// A LibTorch whose libraries are missing, or count otherwise, is found out before anything is computed by it:
// other implementations compute, and the results are right. ctest: label=fast
#include "kernels/cuda/library_check.h"

#include <gtest/gtest.h>

#include "kernels/attention/flash.h"
#include "kernels/linear/op.h"
#include "kernels/linear/wide_product.h"
#include "kernels/linear_cross_entropy/op.h"
#include "on_emulated_gpu.h"

namespace longhaul::kernels {
namespace {

using namespace longhaul::testing;

class LibraryChecks : public ::testing::TestWithParam<LibraryFault> {
 protected:
  void SetUp() override { set_fault(GetParam()); }
  void TearDown() override { set_fault(LibraryFault::kNone); }
  static void set_fault(LibraryFault fault) {
    break_library_calls(fault);
    flash_attention_check().forget();
    wide_product_check().forget();
    wide_product_in_place_check().forget();
  }
  static bool broken() { return GetParam() != LibraryFault::kNone; }
  static bool missing() { return GetParam() == LibraryFault::kMissing; }

 private:
  OnEmulatedGpu gpu_;
};

TEST_P(LibraryChecks, Attention) {
  const Tensor q = random_tensor({30, 2, 16}, 1, at::kBFloat16),
               k = random_tensor({20, 2, 16}, 2, at::kBFloat16);
  const Tensor key_offsets = at::tensor(std::vector<int64_t>{0, 20}),
               offsets = at::tensor(std::vector<int64_t>{0, 30});
  const AttentionResult found = attention(q, k, k, offsets, key_offsets, {.scale = 0.25});
  EXPECT_EQ(Dispatcher::last("attention").chosen, broken() ? "cuda" : "flash");
  const Tensor wide = k.to(at::kDouble);
  const AttentionResult expected =
      attention_reference(q.to(at::kDouble), wide, wide, offsets, key_offsets, {.scale = 0.25});
  EXPECT_LT(rms_error(found.o_thd, expected.o_thd), 1e-2);
}

TEST_P(LibraryChecks, Products) {
  const Tensor x = random_tensor({33, 24}, 1, at::kBFloat16), dy = random_tensor({33, 40}, 2, at::kBFloat16),
               sink = at::full({40, 24}, 3.0, at::kFloat);
  add_weight_gradient(sink, dy, x);
  EXPECT_LT(rms_error(sink, at::mm(dy.to(at::kDouble).t(), x.to(at::kDouble)).add(3)), 1e-6);
  EXPECT_EQ(has_wide_product(x), !missing());
  EXPECT_EQ(wide_product_in_place_check().refusal(x.device()).empty(), !broken());
  const Tensor out = at::full({40, 30}, 7.0, at::kFloat).narrow(1, 2, 24);
  if (has_wide_product(x)) {
    wide_product(out, dy.t(), x);
    EXPECT_LT(rms_error(out, sink.to(at::kDouble).sub(3)), 1e-6);
  }
  EXPECT_FALSE(has_wide_product(x.to(at::kFloat)));
}

TEST_P(LibraryChecks, Loss) {
  const Tensor hidden = random_tensor({9, 16}, 1, at::kBFloat16),
               weight = random_tensor({21, 16}, 2, at::kBFloat16), labels = at::arange(9);
  const Tensor found = linear_cross_entropy_each(hidden, weight, labels);
  EXPECT_EQ(Dispatcher::last("linear_cross_entropy").chosen == "cuda", !missing());
  emulate_cuda(false);
  const Tensor logits = at::mm(hidden.to(at::kDouble), weight.to(at::kDouble).t());
  EXPECT_LT(rms_error(found, logits.logsumexp(1).sub(logits.gather(1, labels.unsqueeze(1)).squeeze(1))),
            1e-5);
}

INSTANTIATE_TEST_SUITE_P(Faults, LibraryChecks,
                         ::testing::Values(LibraryFault::kNone, LibraryFault::kMissing,
                                           LibraryFault::kOtherLimits));

// A device is asked once.
TEST(LibraryCheck, AsksOnce) {
  static int asked = 0;
  asked = 0;
  const LibraryCheck check("a call", [](at::Device) { return ++asked > 100; });
  EXPECT_FALSE(check.refusal(at::kCPU).empty());
  EXPECT_FALSE(check.refusal(at::kCPU).empty());
  EXPECT_EQ(asked, 1);
  check.forget();
  asked = 100;
  EXPECT_TRUE(check.refusal(at::kCPU).empty());
}

TEST(LibraryCheck, SeesWholeValuesAndSignsOfInfinities) {
  const Tensor x = at::tensor(std::vector<double>{1, -2, INFINITY});
  EXPECT_TRUE(nearly_equal(x, x.mul(1.01)));
  EXPECT_FALSE(nearly_equal(x, x.neg()));
  EXPECT_FALSE(nearly_equal(at::tensor({INFINITY}), at::tensor({-INFINITY})));
  EXPECT_FALSE(nearly_equal(at::tensor({1.0, NAN}), at::tensor({1.0, 1.0})));
  EXPECT_FALSE(nearly_equal(x, x.narrow(0, 0, 2)));
  EXPECT_FALSE(nearly_equal(at::tensor({1.0, 2.0}), at::tensor({1.0, 2.2})));
}

}  // namespace
}  // namespace longhaul::kernels
