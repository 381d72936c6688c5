// Right products pass whatever their shape and scale; a number of the result that is wrong by more than
// rounding does not, nor does one that is no number.
#include "kernels/linear/product_check.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/linear/raw.h"

namespace longhaul::kernels::product_check_test {
namespace {

struct CheckCase {
  int64_t tokens, in, out;
};

class ProductCheckOf : public ::testing::TestWithParam<ScalarType> {
 protected:
  void SetUp() override { at::manual_seed(3); }
  Tensor made(int64_t rows, int64_t columns, double scale) {
    return (at::randn({rows, columns}) * scale).to(GetParam());
  }
};

TEST_P(ProductCheckOf, RightProductsPass) {
  for (const CheckCase& each :
       {CheckCase{1, 1, 1}, {3, 5, 17}, {7, 64, 16}, {33, 129, 520}, {16, 1000, 1030}}) {
    for (const double scale : {1e-3, 1.0, 1e3}) {
      const Tensor x = made(each.tokens, each.in, scale), weight = made(each.out, each.in, 1);
      PackedWeight kept;
      for (const Tensor& y :
           {linear_output(x, weight, {}), linear_output(x, weight, {}, {.copies = &kept, .version = 1})}) {
        const ProductCheck check = check_product(x, weight, y);
        EXPECT_TRUE(check.good()) << each.tokens << " " << each.in << " " << each.out << ": " << check.worst;
      }
    }
  }
}

// Every number of y is a tie, 1 + u with u half of the distance of 1 to the next one, and goes down to 1: all
// roundings are as large as any, and go one way. By hand, the difference is 16 u, and six times u ‖y‖ = 4 u
// are allowed.
TEST_P(ProductCheckOf, RoundingsThatAllGoOneWayPass) {
  const double unit = GetParam() == at::kBFloat16 ? 0x1p-8 : GetParam() == at::kFloat ? 0x1p-24 : 0x1p-53;
  const Tensor x = at::ones({3, 2}).to(GetParam()),
               weight = at::tensor({1.0, unit}, at::kDouble).repeat({16, 1}).to(GetParam());
  const Tensor y = linear_output(x, weight, {});
  ASSERT_TRUE(y.eq(1).all().item<bool>());
  const ProductCheck check = check_product(x, weight, y);
  EXPECT_TRUE(check.good()) << check.worst;
  if (GetParam() == at::kDouble) return;  // sums in fp64 end in the same ties
  // Beside y's own roundings what sums of two products in fp32 may add.
  const double adding = 0x1p-24 * std::sqrt(2.0) * std::sqrt(16 * (1 + unit * unit) * 2);
  EXPECT_NEAR(check.worst, 16 * unit / (6 * (4 * unit + adding)), 1e-9);
}

TEST_P(ProductCheckOf, WrongNumbersAreFoundWhereTheyAre) {
  const Tensor x = made(9, 100, 1), weight = made(700, 100, 1);
  const Tensor right = linear_output(x, weight, {});
  for (const double wrong : {50.0, -50.0, 1e30, std::nan(""), -std::numeric_limits<double>::infinity()}) {
    Tensor y = right.clone();
    y[4][601] += wrong;
    const ProductCheck check = check_product(x, weight, y);
    EXPECT_FALSE(check.good()) << wrong;
    EXPECT_EQ(check.row, 4);
    EXPECT_EQ(check.column, 592);  // the sixteen from there on
  }
  Tensor last = right.clone();
  last[4][699] += 50;  // of the twelve after the last whole sixteen
  EXPECT_FALSE(check_product(x, weight, last).good());
  EXPECT_EQ(check_product(x, weight, last).column, 688);
  Tensor other = weight.clone();
  other[650][7] *= 1024;  // an operand is not what it was
  EXPECT_FALSE(check_product(x, other, right).good());
}

INSTANTIATE_TEST_SUITE_P(Types, ProductCheckOf, ::testing::Values(at::kBFloat16, at::kFloat, at::kDouble),
                         [](const auto& each) { return std::string(at::toString(each.param)); });

}  // namespace
}  // namespace longhaul::kernels::product_check_test
