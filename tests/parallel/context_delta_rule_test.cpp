// The delta rule over context ranks is that of the whole row, forward and backward, however it is packed and
// cut.
#include "parallel/context/context_delta_rule.h"

#include "parallel/context_cases.h"

namespace longhaul::parallel {
namespace {

using testing::random_tensor;

kernels::DeltaRuleInputs delta_inputs_of(const std::vector<Tensor>& x) {
  return {.q_tgk = x[0],
          .k_tgk = x[1] / x[1].norm(2, 2, true),
          .v_thv = x[2],
          .beta_th = x[3].sigmoid(),
          .log_decay = x[4],
          .scale = 0.6};
}

void expect_the_whole_row(recipe::LinearContextMethod method, int64_t key_heads) {
  const int64_t heads = 2 * key_heads;
  for (const std::string decay : {"none", "head", "channel"}) {
    for_each_case({2, 3, 4}, [&](const std::vector<int64_t>& lengths, int64_t ranks, ContextSplit split) {
      const layout::SequenceLayout row = layout::make_packed(lengths);
      const int64_t tokens = row.tokens();
      Tensor g;
      if (decay == "head") g = random_tensor({tokens, heads}, 5).sigmoid().neg();
      if (decay == "channel") g = random_tensor({tokens, heads, 3}, 5).sigmoid().neg();
      const WholeInputs in{
          {random_tensor({tokens, key_heads, 3}, 1), random_tensor({tokens, key_heads, 3}, 2),
           random_tensor({tokens, heads, 5}, 3), random_tensor({tokens, heads}, 4), g},
          {true, true, true, true, true}};
      const Tensor d_o = random_tensor({tokens, heads, 5}, 9);
      const WholeResult found = on_context_ranks(
          lengths, ranks, split, in, d_o,
          [&](comm::Communicator& group, const std::vector<Tensor>& own, const layout::SequenceView& view) {
            return context_delta_rule(method, group, delta_inputs_of(own), view);
          });
      expect_the_whole(
          found, in, d_o, 1e-11,
          [&](const std::vector<Tensor>& x) {
            kernels::DeltaRuleInputs whole = delta_inputs_of(x);
            whole.offsets = to_tensor(row.document_offsets);
            return kernels::delta_rule_reference(whole).o_thd;
          },
          decay + ", " + text_of(lengths, ranks, split));
    });
  }
}

TEST(ContextDeltaRule, IsThatOfTheWholeRow) {
  expect_the_whole_row(recipe::LinearContextMethod::kAllGather, 2);
}
TEST(ContextDeltaRule, OfHeadsIsThatOfTheWholeRow) {
  expect_the_whole_row(recipe::LinearContextMethod::kUlysses, 12);
}

}  // namespace
}  // namespace longhaul::parallel
