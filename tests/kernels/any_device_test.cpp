// The implementations in LibTorch's operators ("aten", what a device without kernels of ours gets), run on
// the CPU beside the others: values and gradients. And every operator on meta tensors, forward and backward:
// shapes and dtypes without data, as a planner wants them; what would read a meta tensor's data, or take it
// for a CPU tensor, throws.
#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/activation/op.h"
#include "kernels/attention/attention_cases.h"
#include "kernels/embedding/op.h"
#include "kernels/experts/op.h"
#include "kernels/linear/op.h"
#include "kernels/linear_cross_entropy/problem.h"
#include "kernels/linear_recurrence/linear_recurrence_cases.h"
#include "kernels/norm/op.h"
#include "kernels/rotary_heads/op.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels::any_device_test {
namespace {

using namespace longhaul::testing;

// While alive, `implementation` answers for these operators.
class Answered {
 public:
  Answered(std::vector<std::string> ops, const std::string& implementation) : ops_(std::move(ops)) {
    for (const std::string& op : ops_) Dispatcher::force(op, implementation);
  }
  ~Answered() {
    for (const std::string& op : ops_) Dispatcher::force(op, std::nullopt);
  }

 private:
  std::vector<std::string> ops_;
};

// fp64 on both sides: sums of a few hundred terms in another order.
constexpr double kTolerance = 1e-10;

class AtenRecurrence : public ::testing::TestWithParam<Case> {};

TEST_P(AtenRecurrence, EqualsReference) {
  const Case& c = GetParam();
  if (c.tokens() * c.heads * c.key * c.value > 20'000'000) GTEST_SKIP() << "the reference keeps every state";
  const Inputs in = inputs_of(c);
  for (const bool reverse : {false, true}) {
    const LinearRecurrenceOptions options{.scale = 0.7, .reverse = reverse};
    const auto with = [&](const char* implementation) {
      const Forced forced(implementation);
      return evaluate(in, true, [&](const Inputs& x) {
        return linear_recurrence(x.q, x.k, x.v, x.log_decay, x.initial, to_tensor(c.offsets), options);
      });
    };
    const Evaluation found = with("aten"), expected = with("reference");
    EXPECT_EQ(Dispatcher::last("linear_recurrence").chosen, "reference");
    expect_close(found, expected, kTolerance);
  }
}
INSTANTIATE_TEST_SUITE_P(Cases, AtenRecurrence, ::testing::ValuesIn(load_cases()));

TEST(AtenTiedKeys, GiveTheirGradientToTheDecay) {
  const Tensor q = random_tensor({20, 4, 3}, 1), v = random_tensor({20, 2, 5}, 2),
               g = random_tensor({20, 4, 3}, 3).sigmoid().neg();
  const auto with = [&](const char* implementation) {
    const Forced forced(implementation);
    const Tensor decay = g.clone().requires_grad_(true);
    const auto result = linear_recurrence(q, Tensor(), v, decay, Tensor(), Tensor(), {.tied_keys = true});
    weigh(result).backward();
    return std::vector<Tensor>{result.o_thd.detach(), result.final_state_nhkv.detach(), decay.grad()};
  };
  const auto found = with("aten"), expected = with("reference");
  for (size_t i = 0; i < found.size(); ++i) EXPECT_LT(relative_error(found[i], expected[i]), kTolerance) << i;
}

class AtenAttention : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(AtenAttention, EqualsReference) {
  const AttentionCase& c = GetParam();
  const AttentionInputs in = longhaul::testing::inputs_of(c);
  const auto with = [&](const char* implementation) {
    const Answered answered({"attention"}, implementation);
    return longhaul::testing::evaluate(in,
                                       [&](const AttentionInputs& x) { return c.call(attention, x, 0.3); });
  };
  expect_same(with("aten"), with("reference"), 1e-9);
}
INSTANTIATE_TEST_SUITE_P(Cases, AtenAttention, ::testing::ValuesIn(attention_cases()));

// Values, and gradients of x and of each sink, of an operator run by "aten" and by "cpu".
using Run = std::function<std::vector<Tensor>()>;
void expect_same_by_aten(const std::vector<std::string>& ops, const Run& run, double tolerance = 1e-12) {
  std::vector<Tensor> found, expected;
  {
    const Answered answered(ops, "aten");
    found = run();
  }
  {
    const Answered answered(ops, "cpu");
    expected = run();
  }
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_LT(relative_error(found[i], expected[i]), tolerance) << ops[0] << " " << i;
}

Tensor leaf(at::IntArrayRef sizes, uint64_t seed, at::ScalarType type = at::kDouble) {
  return random_tensor(sizes, seed, type).requires_grad_(true);
}

TEST(AtenFused, NormsEqualTheLoops) {
  expect_same_by_aten({"rms_norm", "layer_norm", "join_norm"}, [] {
    const Tensor x = leaf({9, 13}, 1), branch = leaf({9, 13}, 2), gate = leaf({9, 13}, 3),
                 weight = leaf({13}, 4), bias = leaf({13}, 5);
    const JoinedNorm joined = join_norm(NormKind::kLayer, x, branch, 0.8, 1.3, weight, bias, 1e-5);
    const Tensor all = rms_norm(x, weight, 1e-5, gate) + layer_norm(branch, weight, bias, 1e-5) +
                       joined.joined_tc * 0.3 + joined.normed_tc;
    all.backward(random_tensor({9, 13}, 6));
    return std::vector<Tensor>{all.detach(), x.grad(),      branch.grad(),
                               gate.grad(),  weight.grad(), bias.grad()};
  });
}

TEST(AtenFused, ActivationsAndHeadsEqualTheLoops) {
  expect_same_by_aten({"swiglu", "silu_heads", "bias_gelu"}, [] {
    const Tensor x = leaf({7, 24}, 1), bias = random_tensor({24}, 2), sink = at::full({24}, 2.0, at::kDouble);
    const Heads heads = silu_heads(x, 2, 1, 6);
    const Tensor all =
        at::cat({heads.q_thd, heads.k_thd, heads.v_thd}, 1).reshape({7, 24}) + bias_gelu(x, bias, sink);
    const Tensor y = swiglu(all);
    y.backward(random_tensor({7, 12}, 3));
    return std::vector<Tensor>{y.detach(), x.grad(), sink};
  });
  expect_same_by_aten({"split_heads"}, [] {
    const std::vector<int64_t> positions = {0, 1, 2, 0, 1};
    const Tensor x = leaf({5, 4 * 10}, 1);
    const Heads heads = split_heads(x.mul(1), 2, 1, 10, rotary_table(positions, 6, 10000, at::kDouble));
    const Tensor all = at::cat({heads.q_thd, heads.k_thd, heads.v_thd}, 1);
    all.backward(random_tensor({5, 4, 10}, 2));
    return std::vector<Tensor>{all.detach(), x.grad()};
  });
}

TEST(AtenFused, EmbeddingEqualsTheLoops) {
  const Tensor ids = at::tensor(std::vector<int64_t>{3, 0, 3, 9, 3, 1}),
               positions = at::tensor(std::vector<int64_t>{0, 1, 2, 0, 1, 3});
  for (const bool with_positions : {false, true}) {
    for (const auto& [type, tolerance] : {std::pair{at::kDouble, 1e-14}, {at::kBFloat16, 1e-6}}) {
      expect_same_by_aten(
          {"embedding"},
          [&, type = type] {
            const auto wide = at::TensorOptions().dtype(type == at::kDouble ? at::kDouble : at::kFloat);
            const EmbeddingTable table{leaf({10, 5}, 1, type), at::full({10, 5}, 2.0, wide)},
                position{leaf({4, 5}, 2, type), at::full({4, 5}, 2.0, wide)};
            const Tensor y =
                with_positions ? embedding(ids, table, positions, position) : embedding(ids, table);
            y.backward(random_tensor({6, 5}, 3, type));
            EXPECT_FALSE(table.value_vd.grad().defined());
            return std::vector<Tensor>{y.detach(), table.sink.buffer(), position.sink.buffer()};
          },
          tolerance);
    }
  }
}

TEST(AtenFused, ExpertsEqualTheLoops) {
  expect_same_by_aten({"route", "assign_experts", "permute_to_experts", "combine_experts"}, [] {
    const Tensor x = leaf({11, 6}, 1), router = random_tensor({5, 6}, 2),
                 sink = at::full({5, 6}, 3.0, at::kDouble);
    const Routing routing = route(x, router, 3, sink, at::tensor(std::vector<int64_t>{0, 4, 11}));
    const ExpertAssignment assignment = assign_experts(routing.choice_tk, 5);
    const Tensor rows = permute_to_experts(x, assignment),
                 y = combine_experts(rows.mul(random_tensor({33, 6}, 3)), routing.weight_tk, assignment);
    (y.mul(random_tensor({11, 6}, 4)).sum() + routing.probability_sum_se.mul(random_tensor({2, 5}, 5)).sum() +
     routing.log_sum_square * 0.2)
        .backward();
    return std::vector<Tensor>{y.detach(),
                               rows.detach(),
                               x.grad(),
                               sink,
                               routing.count_se,
                               to_tensor(assignment.rows_per_expert),
                               assignment.source_r,
                               assignment.place_tk};
  });
}

TEST(AtenFused, ExpertsOfEqualProbabilityComeInTheirOrder) {
  const Answered answered({"route", "assign_experts"}, "aten");
  const Routing routing =
      route(at::ones({2, 3}, at::kDouble), at::ones({6, 3}, at::kDouble), 4, at::zeros({6, 3}, at::kDouble));
  EXPECT_TRUE(routing.choice_tk.equal(at::arange(4).expand({2, 4})));
  for (const int64_t outside : {-1, -7, 3, 9})
    EXPECT_THROW(assign_experts(at::full({2, 1}, outside, at::kLong), 3), Error) << outside;
}

// Off the CPU nobody picks the tokens that have a label: the others cost nothing and get nothing.
TEST(AtenFused, TokensWithoutLabelHaveNoLoss) {
  const Tensor hidden = random_tensor({7, 4}, 1), weight = random_tensor({9, 4}, 2);
  const Tensor labels = at::tensor(std::vector<int64_t>{3, -1, 0, 8, -5, 2, -1});
  const LinearCrossEntropyOptions options{.z_loss = 0.1, .chunk = 3, .upstream = 0.5};
  const auto run = [&](const Tensor& rows) {
    CrossEntropyProblem problem{rows.defined() ? hidden.index_select(0, rows) : hidden, weight,
                                rows.defined() ? labels.index_select(0, rows) : labels, options};
    problem.all_labelled = rows.defined();
    const CrossEntropyGradients gradients{at::full_like(problem.hidden_td, NAN), at::ones_like(weight)};
    return std::vector<Tensor>{cross_entropy_aten(problem, gradients), gradients.hidden_td,
                               gradients.sink_vd};
  };
  const Tensor rows = labels.ge(0).nonzero().squeeze(1);
  const auto found = run(Tensor()), expected = run(rows);
  EXPECT_LT(relative_error(found[0], at::zeros({7}, at::kDouble).index_copy_(0, rows, expected[0])),
            kTolerance);
  EXPECT_LT(relative_error(found[1], at::zeros({7, 4}, at::kDouble).index_copy_(0, rows, expected[1])),
            kTolerance);
  EXPECT_LT(relative_error(found[2], expected[2]), kTolerance);
}

// Meta tensors: what an operator makes of shapes.
Tensor meta(at::IntArrayRef sizes, at::ScalarType type = at::kBFloat16) {
  return at::empty(sizes, at::TensorOptions().dtype(type).device(at::kMeta));
}
Tensor meta_leaf(at::IntArrayRef sizes, at::ScalarType type = at::kBFloat16) {
  return meta(sizes, type).requires_grad_(true);
}

void expect_meta(const Tensor& tensor, at::IntArrayRef sizes, at::ScalarType type) {
  ASSERT_TRUE(tensor.defined());
  EXPECT_TRUE(tensor.is_meta());
  EXPECT_EQ(tensor.sizes(), sizes);
  EXPECT_EQ(tensor.scalar_type(), type);
}
void backward(const std::vector<Tensor>& outputs) {
  Tensor loss;
  for (const Tensor& each : outputs)
    loss = loss.defined() ? loss + each.sum(at::kFloat) : each.sum(at::kFloat);
  loss.backward();
}
void expect_gradient(const Tensor& input) { expect_meta(input.grad(), input.sizes(), input.scalar_type()); }

TEST(Meta, LinearRecurrence) {
  const Tensor offsets = to_tensor(std::vector<int64_t>{0, 30, 30, 100});
  for (const std::vector<int64_t>& decay : {std::vector<int64_t>{}, {4}, {100, 4}, {100, 4, 8}}) {
    const Tensor q = meta_leaf({100, 4, 8}), k = meta_leaf({100, 2, 8}), v = meta_leaf({100, 2, 6}),
                 initial = meta_leaf({3, 4, 8, 6}, at::kFloat);
    const Tensor log_decay = decay.empty() ? Tensor() : meta_leaf(decay, at::kFloat);
    const auto result = linear_recurrence(q, k, v, log_decay, initial, offsets);
    EXPECT_EQ(Dispatcher::last("linear_recurrence").chosen, "meta");
    expect_meta(result.o_thd, {100, 4, 6}, at::kBFloat16);
    expect_meta(result.final_state_nhkv, {3, 4, 8, 6}, at::kFloat);
    backward({result.o_thd, result.final_state_nhkv});
    for (const Tensor& each : {q, k, v, initial}) expect_gradient(each);
    if (log_decay.defined()) expect_gradient(log_decay);
  }
}

TEST(Meta, LinearRecurrenceOfAGate) {
  const Tensor q = meta_leaf({100, 4, 8}), v = meta_leaf({100, 2, 6}), x = meta_leaf({100, 4, 8}),
               bound = meta_leaf({4, 8}, at::kFloat);
  const auto result = linear_recurrence(
      q, Tensor(), v, x, Tensor(), Tensor(),
      {.tied_keys = true, .gate = {.kind = RecurrenceGate::Kind::kLowerBounded, .lower_bound_hk = bound}});
  EXPECT_EQ(Dispatcher::last("linear_recurrence").chosen, "meta");
  backward({result.o_thd, result.final_state_nhkv});
  for (const Tensor& each : {q, v, x, bound}) expect_gradient(each);
}

TEST(Meta, Attention) {
  const Tensor q = meta_leaf({70, 4, 8}), k = meta_leaf({90, 2, 8}), v = meta_leaf({90, 2, 6});
  const AttentionResult result =
      attention(q, k, v, to_tensor(std::vector<int64_t>{0, 0, 70}),
                to_tensor(std::vector<int64_t>{0, 10, 90}), {.scale = 1, .window = 5});
  expect_meta(result.o_thd, {70, 4, 6}, at::kBFloat16);
  expect_meta(result.logsumexp_th, {70, 4}, at::kFloat);
  backward({result.o_thd, result.logsumexp_th});
  for (const Tensor& each : {q, k, v}) expect_gradient(each);
}

TEST(Meta, LinearCrossEntropy) {
  const Tensor hidden = meta_leaf({70, 8}), weight = meta_leaf({50, 8}), labels = meta({70}, at::kLong),
               sink = meta({50, 8}, at::kFloat);
  const Tensor sum = linear_cross_entropy_sum(hidden, weight, labels, sink);
  expect_meta(sum, {}, at::kFloat);
  sum.backward();
  expect_gradient(hidden);
  hidden.mutable_grad() = Tensor();
  const Tensor mean = linear_cross_entropy(hidden, weight, labels, 1e-4);
  mean.backward();
  expect_gradient(hidden);
  expect_gradient(weight);
  expect_meta(linear_cross_entropy_each(hidden, weight, labels), {70}, at::kFloat);
}

TEST(Meta, Norms) {
  const Tensor x = meta_leaf({5, 8}), branch = meta_leaf({5, 8}), gate = meta_leaf({5, 8}),
               weight = meta_leaf({8}, at::kFloat), bias = meta_leaf({8}, at::kFloat);
  const Tensor rms = rms_norm(x, weight, 1e-5, gate), layer = layer_norm(x, weight, bias, 1e-5);
  const JoinedNorm joined = join_norm(NormKind::kRms, x, branch, 1, 1, weight, {}, 1e-5);
  for (const Tensor& each : {rms, layer, joined.joined_tc, joined.normed_tc})
    expect_meta(each, {5, 8}, at::kBFloat16);
  backward({rms, layer, joined.joined_tc, joined.normed_tc});
  for (const Tensor& each : {x, branch, gate, weight, bias}) expect_gradient(each);
}

TEST(Meta, ActivationsAndHeads) {
  const Tensor x = meta_leaf({5, 24}), sink = meta({24}, at::kFloat);
  const Heads silu = silu_heads(x, 2, 1, 6);
  const Heads split = split_heads(x.mul(1), 2, 1, 6, {meta({5, 2}, at::kFloat), meta({5, 2}, at::kFloat)});
  const Tensor gelu = bias_gelu(x, meta({24}), sink), swish = swiglu(x);
  for (const Heads& heads : {silu, split}) {
    expect_meta(heads.q_thd, {5, 2, 6}, at::kBFloat16);
    expect_meta(heads.k_thd, {5, 1, 6}, at::kBFloat16);
    expect_meta(heads.v_thd, {5, 1, 6}, at::kBFloat16);
  }
  expect_meta(gelu, {5, 24}, at::kBFloat16);
  expect_meta(swish, {5, 12}, at::kBFloat16);
  backward({silu.q_thd, silu.k_thd, silu.v_thd, split.q_thd, split.k_thd, split.v_thd, gelu, swish});
  expect_gradient(x);
}

TEST(Meta, EmbeddingWithIdsOnTheCpu) {
  const EmbeddingTable table{meta_leaf({10, 6}), meta({10, 6}, at::kFloat)},
      position{meta_leaf({9, 6}), meta({9, 6}, at::kFloat)};
  for (const Tensor& ids : {meta({5}, at::kLong), at::arange(5)}) {
    const Tensor y = embedding(ids, table, ids, position);
    expect_meta(y, {5, 6}, at::kBFloat16);
    backward({y, embedding(ids, table)});
  }
  EXPECT_THROW(embedding(at::arange(11), table), Error) << "ids on the CPU are checked";
}

TEST(Meta, ExpertsAndLinear) {
  const Tensor x = meta_leaf({7, 6}), router = meta({5, 6}, at::kFloat),
               router_sink = meta({5, 6}, at::kFloat);
  const Routing routing = route(x, router, 2, router_sink, at::tensor(std::vector<int64_t>{0, 3, 7}));
  expect_meta(routing.probability_sum_se, {2, 5}, at::kFloat);
  expect_meta(routing.count_se, {2, 5}, at::kLong);
  expect_meta(routing.weight_tk, {7, 2}, at::kFloat);
  expect_meta(routing.choice_tk, {7, 2}, at::kLong);
  const ExpertAssignment assignment = assign_experts(routing.choice_tk, 5);
  EXPECT_EQ(assignment.rows_per_expert, (std::vector<int64_t>{3, 3, 3, 3, 2}));
  const Tensor rows = permute_to_experts(x, assignment);
  expect_meta(rows, {14, 6}, at::kBFloat16);
  const Tensor up =
      grouped_linear(rows, assignment.rows_per_expert, meta({5, 8, 6}), meta({5, 8, 6}, at::kFloat));
  const Tensor down = linear(up, meta({6, 8}), meta({6}),
                             {.weight = meta({6, 8}, at::kFloat), .bias = meta({6}, at::kFloat)});
  const Tensor y = combine_experts(down, routing.weight_tk, assignment);
  expect_meta(y, {7, 6}, at::kBFloat16);
  backward({y, routing.probability_sum_se, routing.log_sum_square});
  expect_gradient(x);
}

}  // namespace
}  // namespace longhaul::kernels::any_device_test
