// Tokens to experts and back against plain indexing.
#include "kernels/experts/op.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/instruction_sets.h"
#include "support/threads.h"

namespace longhaul::kernels::experts_test {
namespace {

using namespace longhaul::testing;

constexpr int64_t kExperts = 6, kTokens = 11, kChoices = 2;

// Token t chooses experts t mod 4 and (t + 2) mod 4: experts 4 and 5 get nothing.
Tensor choices() {
  Tensor choice = at::empty({kTokens, kChoices}, at::kLong);
  for (int64_t t = 0; t < kTokens; ++t) {
    choice[t][0] = t % 4;
    choice[t][1] = (t + 2) % 4;
  }
  return choice;
}

TEST(ExpertAssignments, AreAStableSort) {
  const Tensor choice = choices();
  const ExpertAssignment assignment = assign_experts(choice, kExperts);
  EXPECT_EQ(assignment.rows_per_expert, (std::vector<int64_t>{6, 5, 6, 5, 0, 0}));
  const Tensor order = at::argsort(choice.view(-1), /*stable=*/true, 0, false);
  EXPECT_TRUE(assignment.source_r.equal(order.div(kChoices, "floor")));
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t i = 0; i < kChoices; ++i)
      EXPECT_EQ(order[assignment.place_tk[t][i]].item<int64_t>(), t * kChoices + i);
  }
}

TEST(ExpertAssignments, EdgeCases) {
  const ExpertAssignment none = assign_experts(at::empty({0, 2}, at::kLong), 3);
  EXPECT_EQ(none.rows_per_expert, (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(permute_to_experts(at::zeros({0, 4}), none).sizes(), at::IntArrayRef({0, 4}));
  EXPECT_EQ(combine_experts(at::zeros({0, 4}), at::zeros({0, 2}), none).sizes(), at::IntArrayRef({0, 4}));
  EXPECT_THROW(assign_experts(at::full({2, 1}, 3, at::kLong), 3), Error);
  EXPECT_THROW(assign_experts(at::full({2, 1}, -1, at::kLong), 3), Error);
  EXPECT_THROW(assign_experts(at::zeros({2, 1}), 3), Error);
}

// There and back with weights: Σ_k w_tk · scale_e(choice) · x_t, known without any sorting.
TEST(ExpertRows, ComeBackWeighted) {
  const PoisonFreshMemory poison;
  for_each_instruction_set([&] {
    const Tensor choice = choices();
    const ExpertAssignment assignment = assign_experts(choice, kExperts);
    // bf16: weight, product and sum are rounded once each.
    const std::pair<at::ScalarType, double> types[] = {
        {at::kDouble, 1e-14}, {at::kFloat, 1e-6}, {at::kBFloat16, 1.2e-2}};
    for (const auto& [type, tolerance] : types) {
      const ScalarType wide = type == at::kDouble ? at::kDouble : at::kFloat;
      const Tensor x = random_tensor({kTokens, 5}, 1, type),
                   weight = random_tensor({kTokens, kChoices}, 2, wide);
      const Tensor rows = permute_to_experts(x, assignment);
      const Tensor factor = at::argsort(choice.view(-1), /*stable=*/true, 0, false);
      const Tensor expert_of_row = choice.view(-1).index_select(0, factor).add(1).to(type).unsqueeze(1);
      const Tensor y = combine_experts(rows.mul(expert_of_row), weight, assignment);
      EXPECT_EQ(y.scalar_type(), type);
      const Tensor expected = x.to(at::kDouble) * weight.to(at::kDouble).mul(choice.add(1)).sum(1, true);
      EXPECT_LT(relative_error(y, expected), tolerance) << type;
    }
  });
}

TEST(ExpertRows, Gradients) {
  const ExpertAssignment assignment = assign_experts(choices(), kExperts);
  const Tensor mix = random_tensor({kTokens, 5}, 3), row_mix = random_tensor({kTokens * kChoices, 5}, 4);
  check_gradients(
      [&](const std::vector<Tensor>& in) { return permute_to_experts(in[0], assignment).mul(row_mix).sum(); },
      {random_tensor({kTokens, 5}, 1)});
  check_gradients(
      [&](const std::vector<Tensor>& in) { return combine_experts(in[0], in[1], assignment).mul(mix).sum(); },
      {random_tensor({kTokens * kChoices, 5}, 1), random_tensor({kTokens, kChoices}, 2)});
}

TEST(ExpertRows, SameForEveryNumberOfThreads) {
  auto generator = at::detail::createCPUGenerator(1);
  const ExpertAssignment assignment =
      assign_experts(at::randint(8, {700, 3}, generator, at::TensorOptions().dtype(at::kLong)), 8);
  expect_same_for_all_threads([&] {
    const Tensor x = random_tensor({700, 64}, 1, at::kFloat).requires_grad_(true),
                 weight = random_tensor({700, 3}, 2, at::kFloat).requires_grad_(true);
    const Tensor y = combine_experts(permute_to_experts(x, assignment), weight, assignment);
    y.backward(random_tensor({700, 64}, 3, at::kFloat));
    return std::vector<Tensor>{y.detach(), x.grad(), weight.grad()};
  });
}

}  // namespace
}  // namespace longhaul::kernels::experts_test
