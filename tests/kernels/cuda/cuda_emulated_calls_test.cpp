// The glue between tensors and the CUDA kernels (<op>/cuda_call.cpp): every operator run by its "cuda" entry,
// forward and backward, on an emulated GPU (on_emulated_gpu.h); beside the reference on the same rounded
// inputs. Inputs are strided where the operator takes such. Recurrences, attention, feature maps and the
// delta rule have files of their own. ctest: label=fast timeout=120
#include <gtest/gtest.h>

#include "base/error.h"
#include "emulated_calls.h"
#include "kernels/activation/cuda_call.h"
#include "kernels/activation/op.h"
#include "kernels/attention/paged/paged.h"
#include "kernels/embedding/op.h"
#include "kernels/experts/op.h"
#include "kernels/linear/op.h"
#include "kernels/linear_cross_entropy/cuda_call.h"
#include "kernels/linear_cross_entropy/log_probabilities.h"
#include "kernels/linear_recurrence/op.h"
#include "kernels/norm/op.h"
#include "kernels/rotary_heads/op.h"
#include "kernels/short_convolution/op.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels::cuda_calls_test {
namespace {

TEST(CudaCalls, GradientOfABiasAddsToItsSink) {
  const Tensor dy = rounded({530, 40}, 1, kBf16), sink = full({40}, 0.5, at::kFloat);
  const OnEmulatedGpu gpu;
  cuda_calls<ActivationCuda>().add_bias_gradient(dy, sink);
  EXPECT_LT(rms_error(sink, dy.to(at::kDouble).sum(0).add(0.5)), 1e-6);
}

// Documents shorter than the taps and empty ones, with a state and without, rows of a wider tensor, and
// gradients that reach the states.
TEST(CudaCalls, ShortConvolution) {
  for (const auto& [taps, with_bias, with_state, silu] : {std::tuple{4, true, true, true},
                                                          {4, false, false, true},
                                                          {7, true, true, false},
                                                          {1, true, true, true}}) {
    expect_like_fp64({"short_convolution"}, [&, taps = taps, with_bias = with_bias, with_state = with_state,
                                             silu = silu](at::ScalarType type) {
      const std::vector<int64_t> offsets = {0, 1, 3, 3, 40};
      const Tensor x = emulated_leaf({40, 30}, 1, type), weight = wide_leaf({24, taps}, 2, type),
                   bias = with_bias ? wide_leaf({24}, 3, type) : Tensor(),
                   state = with_state ? emulated_leaf({4, taps - 1, 24}, 4, type) : Tensor();
      const auto result =
          short_convolution(x.narrow(1, 6, 24), weight, bias, to_tensor(offsets), state, {.silu = silu});
      const auto weighed = [&](const Tensor& y, uint64_t seed) {
        return y.to(emulated_wide(type)).mul(rounded(y.sizes(), seed, emulated_wide(type))).sum();
      };
      (weighed(result.y_tc, 5) + weighed(result.final_state_nwc, 6)).backward();
      std::vector<Tensor> found = {result.y_tc.detach(), x.grad(), weight.grad()};
      if (with_bias) found.push_back(bias.grad());
      if (with_state && taps > 1) {
        found.push_back(state.grad());
        found.push_back(result.final_state_nwc.detach());
      }
      return found;
    });
  }
}

// Decoding: one token for each of some sequences.
TEST(CudaCalls, ShortConvolutionGoesOnFromStates) {
  expect_like_fp64({"short_convolution"}, [](at::ScalarType type) {
    const Tensor weight = rounded({24, 4}, 1, emulated_wide(type)),
                 states = rounded({5, 3, 24}, 2, type).clone();
    const std::vector<int64_t> rows = {3, 0, 4};
    const Tensor y = short_convolution_continued(rounded({3, 24}, 3, type), weight, {}, {states, rows},
                                                 to_tensor(std::vector<int64_t>{0, 1, 2, 3}), {.silu = true});
    return std::vector<Tensor>{y, states};
  });
}

// Routers that LibTorch's operators score choose by our kernel: with a bias, within groups, with ties.
TEST(CudaCalls, RoutersOfOtherScoresChooseAsOnTheCpu) {
  using Score = RouterOptions::Score;
  for (const auto& [score, groups] :
       {std::pair{Score::kSigmoid, 4}, {Score::kSqrtSoftplus, 1}, {Score::kSoftmax, 2}}) {
    const auto run = [&, score = score, groups = groups](at::ScalarType type) {
      const Tensor x = emulated_leaf({30, 16}, 1, type),
                   router = rounded({8, 16}, 2, emulated_wide(type))
                                .index_select(0, at::tensor({0, 1, 2, 2, 4, 5, 6, 7})),
                   sink = full({8, 16}, 3, emulated_wide(type));
      const RouterOptions options{
          .score = score,
          .scale = 2.5,
          .groups = groups,
          .groups_per_token = groups / 2 + groups % 2,
          .bias_e =
              rounded({8}, 4, emulated_wide(type)).index_select(0, at::tensor({0, 1, 2, 2, 4, 5, 6, 7}))};
      const Routing routing = route(x, router, 2, sink, {}, options);
      routing.weight_tk.mul(rounded({30, 2}, 3, emulated_wide(type)))
          .sum()
          .add(routing.probability_sum_se.square().sum())
          .backward();
      return std::vector<Tensor>{routing.weight_tk.detach(), x.grad(), sink,
                                 routing.choice_tk.to(at::kDouble)};
    };
    std::vector<Tensor> found;
    {
      const OnEmulatedGpu gpu;
      found = run(kBf16);
    }
    const std::vector<Tensor> expected = run(at::kDouble);
    EXPECT_TRUE(found[3].equal(expected[3]));
    for (size_t i = 0; i < 3; ++i) EXPECT_LT(rms_error(found[i], expected[i]), kEmulatedTolerance) << i;
  }
}

// Products by LibTorch's libraries; the gradients of weight and bias are added in fp32 to what the sinks
// hold.
TEST(CudaCalls, LinearAddsToItsSinks) {
  expect_like_fp64({}, [&](at::ScalarType type) {
    const Tensor x = emulated_leaf({37, 24}, 1, type), weight = rounded({40, 24}, 2, type),
                 bias = rounded({40}, 3, type), sink = full({40, 24}, 0.5, emulated_wide(type)),
                 bias_sink = full({40}, -2, emulated_wide(type));
    const Tensor y = linear(x, weight, bias, {.weight = sink, .bias = bias_sink});
    if (type == kBf16) {
      EXPECT_EQ(Dispatcher::last("linear").chosen, "libtorch");
      EXPECT_LT(rms_error(linear_wide(x.detach(), weight),
                          at::mm(x.detach().to(at::kDouble), weight.to(at::kDouble).t())),
                1e-6);
    }
    const Tensor dy = rounded({37, 80}, 4, type).narrow(1, 8, 40);  // rows that lie apart
    y.backward(dy);
    if (type == kBf16) {
      // no rounding to bf16 on the way
      const Tensor wide = dy.to(at::kDouble);
      EXPECT_LT(rms_error(sink, at::mm(wide.t(), x.detach().to(at::kDouble)).add(0.5)), 1e-6);
      EXPECT_LT(rms_error(bias_sink, wide.sum(0).sub(2)), 1e-6);
    }
    return std::vector<Tensor>{y.detach(), x.grad(), sink, bias_sink};
  });
}

TEST(CudaCalls, LinearCrossEntropy) {
  for (const bool with_sink : {true, false}) {
    expect_like_fp64({"linear_cross_entropy"}, [&](at::ScalarType type) {
      const Tensor hidden = emulated_leaf({21, 24}, 1, type), weight = rounded({75, 24}, 2, type),
                   sink = full({75, 24}, 0.5, emulated_wide(type));
      Tensor labels = at::arange(21).mul(11).remainder(75);
      labels[3] = -1;
      const LinearCrossEntropyOptions options{.z_loss = 0.01, .chunk = 8};
      const Tensor sum =
          linear_cross_entropy_sum(hidden, weight, labels, with_sink ? sink : Tensor(), options);
      sum.mul(0.5).backward();  // not what was expected: the sink gets the rest in the backward pass
      return std::vector<Tensor>{sum.detach(), hidden.grad(), sink,
                                 linear_cross_entropy_each(hidden, weight, labels, options)};
    });
  }
}

// Chunks with a tail, a vocabulary that is no multiple of the padding, and tokens without a label.
TEST(CudaCalls, TokenLogProbabilities) {
  for (const bool with_sink : {true, false}) {
    for (const bool entropy : {true, false}) {
      expect_like_fp64({"token_logits"}, [&](at::ScalarType type) {
        const Tensor hidden = emulated_leaf({21, 24}, 1, type), weight = rounded({75, 24}, 2, type),
                     sink = full({75, 24}, 0.5, emulated_wide(type));
        Tensor labels = at::arange(21).mul(11).remainder(75);
        labels[3] = -1;
        const auto each = log_probabilities_of_all(
            hidden, {weight, with_sink ? sink : Tensor()}, labels,
            {.temperature = 0.7, .entropy = entropy, .logsumexp = true, .chunk = 8}, {});
        const auto weighed = [&](const Tensor& x, uint64_t seed) {
          return x.mul(rounded({21}, seed, x.scalar_type())).sum();
        };
        Tensor sum = weighed(each.log_probability_t, 3) + weighed(each.logsumexp_t, 4);
        if (entropy) sum = sum + weighed(each.entropy_t, 5);
        sum.backward();
        std::vector<Tensor> found = {each.log_probability_t.detach(), each.logsumexp_t.detach(),
                                     hidden.grad(), sink};
        if (entropy) found.push_back(each.entropy_t.detach());
        return found;
      });
    }
  }
}

// On a GPU nobody picks the tokens that have a label.
TEST(CudaCalls, TokensWithoutLabelHaveNoLoss) {
  const Tensor hidden = rounded({7, 8}, 1, kBf16), weight = rounded({9, 8}, 2, kBf16);
  const Tensor labels = at::tensor(std::vector<int64_t>{3, -1, 0, 8, -5, 2, -1});
  CrossEntropyProblem problem{hidden, weight, labels, {.z_loss = 0.1, .chunk = 3, .upstream = 0.5}};
  problem.all_labelled = false;
  const auto run = [&](const auto& implementation) {
    const CrossEntropyGradients gradients{at::full_like(hidden, NAN), at::ones({9, 8})};
    return std::vector<Tensor>{implementation(problem, gradients), gradients.hidden_td, gradients.sink_vd};
  };
  stand_in_for_library_calls();
  const auto expected = run(cross_entropy_aten), found = run(cuda_calls<CrossEntropyCuda>().run);
  for (size_t i = 0; i < 3; ++i) EXPECT_LT(rms_error(found[i], expected[i]), kEmulatedTolerance) << i;
}

TEST(CudaCalls, Norms) {
  for (const auto& [rows, channels] : {std::pair<int64_t, int64_t>{9, 13}, {1, 64}, {40, 200}}) {
    for (const double beta : {1.0, 0.25}) {
      expect_like_fp64({"rms_norm", "layer_norm", "join_norm"}, [&, rows = rows,
                                                                 channels = channels](at::ScalarType type) {
        const Tensor x = emulated_leaf({rows, channels}, 1, type),
                     branch = emulated_leaf({rows, channels}, 2, type),
                     gate = emulated_leaf({rows, channels}, 3, type);
        const Tensor weight = wide_leaf({channels}, 4, type), bias = wide_leaf({channels}, 5, type);
        const JoinedNorm layer = join_norm(NormKind::kLayer, x, branch, 1, beta, weight, bias, 1e-5);
        const JoinedNorm rms = join_norm(NormKind::kRms, x, branch, 2 * beta, beta, weight, {}, 1e-5);
        const std::vector<Tensor> outputs = {rms_norm(x, weight, 1e-5, gate),
                                             rms_norm(x, weight, 1e-5),
                                             layer_norm(branch, weight, bias, 1e-5),
                                             layer_norm(gate, weight, {}, 1e-5),
                                             layer.joined_tc,
                                             layer.normed_tc,
                                             rms.joined_tc,
                                             rms.normed_tc};
        Tensor loss = full({}, 0, emulated_wide(type));
        std::vector<Tensor> results;
        for (size_t i = 0; i < outputs.size(); ++i) {
          if (i != 6)
            loss = loss + outputs[i]
                              .to(emulated_wide(type))
                              .mul(rounded({rows, channels}, 10 + i, emulated_wide(type)))
                              .sum();  // one join goes unused
          results.push_back(outputs[i].detach());
        }
        loss.backward();
        for (const Tensor& each : {x, branch, gate, weight, bias}) results.push_back(each.grad());
        return results;
      });
    }
  }
}

TEST(CudaCalls, Activations) {
  expect_like_fp64({"swiglu", "silu_heads", "bias_gelu"}, [](at::ScalarType type) {
    const Tensor x = emulated_leaf({19, 24}, 1, type), bias = rounded({24}, 2, type),
                 sink = full({24}, 2, emulated_wide(type)), plain = emulated_leaf({19, 24}, 3, type);
    const Heads heads = silu_heads(x, 2, 1, 6);
    const Tensor gelu = bias_gelu(x, bias, sink), without = bias_gelu(plain, {}, {}),
                 y = swiglu(strided(plain));
    // Gradients that are pieces of a longer row, and one that is transposed.
    at::cat({heads.q_thd, heads.k_thd}, 1).mul(rounded({19, 3, 6}, 4, type)).sum().backward({}, true);
    heads.v_thd.permute({2, 1, 0}).mul(rounded({6, 1, 19}, 5, type)).sum().backward();
    gelu.backward(rounded({19, 24}, 6, type));
    without.backward(rounded({19, 24}, 7, type));
    y.backward(rounded({19, 12}, 8, type));
    return std::vector<Tensor>{heads.q_thd.detach(),
                               heads.k_thd.detach(),
                               heads.v_thd.detach(),
                               gelu.detach(),
                               without.detach(),
                               y.detach(),
                               x.grad(),
                               plain.grad(),
                               sink};
  });
}

TEST(CudaCalls, Heads) {
  const std::vector<int64_t> positions = {0, 1, 2, 0, 1};
  for (const int64_t dim : {0, 6, 10}) {
    expect_like_fp64({"split_heads"}, [&](at::ScalarType type) {
      const Tensor x = emulated_leaf({5, 4 * 10}, 1, type);
      const RotaryTable table =
          dim > 0 ? rotary_table(positions, dim, 10000, emulated_wide(type)) : RotaryTable{};
      const Heads heads = split_heads(x.mul(1), 2, 1, 10, table);
      const std::vector<Tensor> results = {heads.q_thd.detach().clone(), heads.k_thd.detach().clone(),
                                           heads.v_thd.detach().clone()};
      (at::cat({heads.q_thd, heads.k_thd}, 1).mul(rounded({5, 3, 10}, 2, type)).sum() +
       heads.v_thd.mul(rounded({5, 1, 10}, 3, type)).sum())
          .backward();
      return std::vector<Tensor>{results[0], results[1], results[2], x.grad()};
    });
  }
}

TEST(CudaCalls, Embedding) {
  const Tensor ids = at::tensor(std::vector<int64_t>{3, 0, 3, 9, 3, 1}),
               positions = at::tensor(std::vector<int64_t>{0, 1, 2, 0, 1, 3});
  for (const bool with_positions : {false, true}) {
    expect_like_fp64({"embedding"}, [&](at::ScalarType type) {
      const EmbeddingTable table{emulated_leaf({10, 21}, 1, type), full({10, 21}, 2, emulated_wide(type))},
          position{emulated_leaf({4, 21}, 2, type), full({4, 21}, 3, emulated_wide(type))};
      const Tensor y = with_positions ? embedding(ids, table, positions, position) : embedding(ids, table);
      y.backward(rounded({6, 21}, 3, type));
      EXPECT_FALSE(table.value_vd.grad().defined());
      return std::vector<Tensor>{y.detach(), table.sink.buffer(), position.sink.buffer()};
    });
  }
}

// From hidden states to the sum over experts.
TEST(CudaCalls, Experts) {
  const std::vector<std::string> ops = {"route",
                                        "assign_experts",
                                        "permute_to_experts",
                                        "combine_experts",
                                        "grouped_linear",
                                        "grouped_linear_input_gradient",
                                        "grouped_linear_weight_gradient"};
  expect_like_fp64(ops, [](at::ScalarType type) {
    const Tensor x = emulated_leaf({30, 16}, 1, type), weight = rounded({5, 24, 16}, 4, type).mul(0.25),
                 sink = full({5, 24, 16}, 3, emulated_wide(type));
    const Tensor router = rounded({5, 16}, 2, emulated_wide(type)),
                 router_sink = full({5, 16}, 3, emulated_wide(type));
    const Routing routing = route(x, router, 2, router_sink, at::tensor(std::vector<int64_t>{0, 13, 30}));
    const ExpertAssignment assignment = assign_experts(routing.choice_tk, 5);
    const Tensor rows = permute_to_experts(x, assignment);
    const Tensor up = grouped_linear(rows, assignment.rows_per_expert, weight, sink);
    const Tensor y = combine_experts(up, routing.weight_tk, assignment);
    const auto type_of_sum = emulated_wide(type);
    (y.to(type_of_sum).mul(rounded({30, 24}, 5, type_of_sum)).sum() +
     routing.probability_sum_se.mul(rounded({2, 5}, 6, type_of_sum)).sum() + routing.log_sum_square.mul(0.2))
        .backward();
    return std::vector<Tensor>{routing.weight_tk.detach(),
                               routing.choice_tk,
                               routing.probability_sum_se.detach(),
                               routing.count_se,
                               routing.log_sum_square.detach(),
                               to_tensor(assignment.rows_per_expert),
                               assignment.source_r,
                               assignment.place_tk,
                               rows.detach(),
                               up.detach(),
                               y.detach(),
                               x.grad(),
                               sink,
                               router_sink};
  });
}

TEST(CudaCalls, ExpertsWithoutTokensAndForeignExperts) {
  const OnEmulatedGpu gpu;
  const Tensor weight = rounded({3, 4, 8}, 1, kBf16), sink = full({3, 4, 8}, 2, at::kFloat);
  const ExpertAssignment none = assign_experts(at::empty({0, 2}, at::kLong), 3);
  EXPECT_EQ(none.rows_per_expert, (std::vector<int64_t>{0, 0, 0}));
  const Tensor x = at::zeros({0, 8}, kBf16).requires_grad_(true);
  const Tensor y = grouped_linear(permute_to_experts(x, none), none.rows_per_expert, weight, sink);
  combine_experts(y, at::zeros({0, 2}), none).sum().backward();
  EXPECT_EQ(x.grad().sizes(), at::IntArrayRef({0, 8}));
  EXPECT_TRUE(sink.eq(2).all().item<bool>());
  for (const int64_t outside : {-1, 3})
    EXPECT_THROW(assign_experts(at::full({2, 1}, outside, at::kLong), 3), Error) << outside;
}

TEST(CudaCalls, RefuseWhatTheyCannotDo) {
  const OnEmulatedGpu gpu;
  const auto refused = [](const std::string& op) {
    for (const auto& [name, reason] : Dispatcher::last(op).refusals) {
      if (name == "cuda") return reason;
    }
    return std::string();
  };
  swiglu(at::zeros({2, 4}));
  EXPECT_EQ(refused("swiglu"), "the CUDA kernels compute in bf16");
  const Tensor wide_heads = at::zeros({3, 1, 300}, kBf16);
  linear_recurrence(wide_heads, wide_heads, wide_heads, Tensor(), Tensor(), Tensor());
  EXPECT_EQ(refused("linear_recurrence"), "it takes heads of 1 to 256 channels");
  attention(wide_heads, wide_heads, wide_heads, Tensor(), Tensor(), {});
  EXPECT_EQ(refused("attention"), "it takes heads of 1 to 256 channels");
  KeyValueCache cache({.heads = 1, .key = 8, .value = 8, .options = kBf16});
  cache.grow(1);
  const std::vector<int64_t> rows = {0};
  cache.append(rows, std::vector<int64_t>{0, 3}, at::zeros({3, 1, 8}, kBf16), at::zeros({3, 1, 8}, kBf16));
  attention_paged(at::zeros({2, 1, 8}, kBf16), Tensor(), cache, rows, {});
  EXPECT_EQ(refused("attention_paged"), "it takes one new token a sequence");
  const Tensor x = at::zeros({2, 8}, kBf16);
  linear(x, at::zeros({4, 8}, kBf16), {}, {.weight = at::zeros({4, 8})});
  EXPECT_EQ(refused("linear"), "a single product is left to LibTorch");
  emulate_cuda(false);
  swiglu(x);
  EXPECT_EQ(refused("swiglu"), "the tensors are not on a GPU");
}

}  // namespace
}  // namespace longhaul::kernels::cuda_calls_test
