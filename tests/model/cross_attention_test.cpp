// Attention to a memory against plain fp64 (support/plain_cross_attention.h): results and every gradient, for
// documents and memories of awkward lengths; and mixers that attend to their own tokens refuse a memory.
#include "model/mixers/cross_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/saved/recomputed.h"
#include "model/mixers/mixers.h"
#include "recipe/mixers/cross_attention.h"
#include "support/models.h"
#include "support/plain_cross_attention.h"

namespace longhaul::model::cross_attention_test {
namespace {

using namespace longhaul::testing;
using ::testing::HasSubstr;

constexpr int64_t kMemoryHidden = 10;

// A memory of nothing, a single row, and lengths that no tile has; a document without queries.
layout::SequenceLayout queries() { return layout::make_packed(std::vector<int64_t>{5, 3, 0, 40, 1, 2}); }
layout::SequenceLayout memories() { return layout::make_packed(std::vector<int64_t>{0, 1, 4, 17, 129, 3}); }

struct Case {
  std::string name;
  recipe::ModelConfig config;
  CrossAttentionOptions options{};
};
void PrintTo(const Case& of, std::ostream* out) { *out << of.name; }

std::vector<Case> cases() {
  recipe::ModelConfig grouped = small_config();
  recipe::ModelConfig own_heads = grouped;
  own_heads.heads = 3;
  own_heads.softmax.kv_heads = 3;
  recipe::ModelConfig everything = grouped;
  everything.softmax.qk_norm = true;
  everything.softmax.output_gate = true;
  everything.softmax.bias = recipe::AttentionBias::kAll;
  return {{"grouped_keys", grouped},
          {"a_key_head_each", own_heads},
          {"rotary", grouped, {.rotary = true}},
          {"causal", grouped, {.causal = true}},
          {"norms_gate_biases_rotary_causal", everything, {.rotary = true, .causal = true}}};
}

std::vector<layout::ParameterSpec> tensors_of(const recipe::ModelConfig& config) {
  return layout::mixer_parameters(config, "tower.", recipe::cross_attention_tensors(config, kMemoryHidden));
}

void fill(ParameterSet& parameters) {
  parameters.initialise(5);
  uint64_t seed = 5;
  const at::NoGradGuard guard;
  for (const auto& parameter : parameters.all())
    parameter->value.add_(
        random_tensor(parameter->value.sizes(), ++seed).mul(0.2).to(parameter->value.scalar_type()));
}

struct Block {
  Block(const Case& of, const char* dtype = "fp64")
      : parameters(tensors_of(of.config), Precision::named(dtype), at::kCPU),
        mixer(of.config, {.name = "tower.mixer"}, parameters, of.options) {
    parameters.allocate();
    fill(parameters);
    parameters.zero_gradients();
  }
  ParameterSet parameters;
  CrossAttention mixer;
};

class CrossAttentionPass : public ::testing::TestWithParam<Case> {};

TEST_P(CrossAttentionPass, EqualsThePlainDefinition) {
  const Case& of = GetParam();
  Block block(of);
  const layout::SequenceLayout rows = queries(), seen = memories();
  const Tensor x = random_tensor({rows.tokens(), of.config.hidden}, 1).requires_grad_(),
               memory = random_tensor({seen.tokens(), kMemoryHidden}, 2).requires_grad_(),
               d = random_tensor({rows.tokens(), of.config.hidden}, 3);
  const Tensor plain_x = x.detach().clone().requires_grad_(),
               plain_memory = memory.detach().clone().requires_grad_();
  const LogicalTensors leaves = leaves_of(block.parameters);
  const Tensor expected =
      PlainCrossAttention{of.config, leaves, "tower.mixer", of.options.rotary, of.options.causal}.run(
          plain_x, rows, plain_memory, seen);
  expected.backward(d);

  LocalOps ops;
  Context context(ops, Precision::named("fp64"));
  Memory given = Memory::cut_from(memory, seen);
  const Tensor found = block.mixer.cross_forward(context, x, rows, given);
  found.backward(d);
  EXPECT_LT(relative_error(found, expected), 1e-12);
  EXPECT_LT(relative_error(x.grad(), plain_x.grad()), 1e-12);
  EXPECT_LT(relative_error(memory.grad(), plain_memory.grad()), 1e-12);
  EXPECT_TRUE(memory.grad().narrow(0, 1, 4).eq(0).all().item<bool>()) << "no query sees the third memory";
  for (const auto& [name, leaf] : leaves) {
    size_t part = 0;
    const Parameter* holder = block.parameters.holder_of(name, &part);
    // A key's bias adds the same to all scores of a query: what is left of its gradient is rounding.
    const double scale = std::max(leaf.grad().abs().max().item<double>(), 1e-2);
    EXPECT_LE((holder->part_of(holder->grad, part) - leaf.grad()).abs().max().item<double>(), 1e-12 * scale)
        << name;
  }
}

// By the kernels of narrow numbers, which cut queries and keys into tiles.
TEST_P(CrossAttentionPass, NarrowNumbersAreNearThem) {
  const Case& of = GetParam();
  for (const auto& [dtype, bound] : {std::pair{"fp32", 2e-5}, std::pair{"bf16", 4e-2}}) {
    Block wide(of), narrow(of, dtype);
    const Precision precision = Precision::named(dtype);
    const layout::SequenceLayout rows = queries(), seen = memories();
    const auto run = [&](Block& block, const Precision& in) {
      LocalOps ops;
      Context context(ops, in);
      const auto given = [&](at::IntArrayRef sizes, uint64_t seed) {
        return random_tensor(sizes, seed).to(precision.compute).to(in.compute).requires_grad_();
      };
      const Tensor x = given({rows.tokens(), of.config.hidden}, 1),
                   memory = given({seen.tokens(), kMemoryHidden}, 2);
      Memory of_block = Memory::cut_from(memory, seen);
      const Tensor y = block.mixer.cross_forward(context, x, rows, of_block);
      y.backward(given({rows.tokens(), of.config.hidden}, 3).detach());
      return std::vector<Tensor>{y.detach(), x.grad(), memory.grad()};
    };
    const std::vector<Tensor> expected = run(wide, Precision::named("fp64")), found = run(narrow, precision);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_LT(rms_error(found[i], expected[i]), bound) << dtype << ", tensor " << i;
  }
}

TEST_P(CrossAttentionPass, GradientsAreDifferences) {
  const Case& of = GetParam();
  const layout::SequenceLayout rows = layout::make_packed(std::vector<int64_t>{3, 0, 2, 4}),
                               seen = layout::make_packed(std::vector<int64_t>{2, 3, 0, 5});
  Block block(of);
  const Tensor d = random_tensor({rows.tokens(), of.config.hidden}, 3);
  check_gradients(
      [&](const std::vector<Tensor>& in) {
        LocalOps ops;
        Context context(ops, Precision::named("fp64"));
        Memory given = Memory::cut_from(in[1], seen);
        return block.mixer.cross_forward(context, in[0], rows, given).mul(d).sum();
      },
      {random_tensor({rows.tokens(), of.config.hidden}, 1),
       random_tensor({seen.tokens(), kMemoryHidden}, 2)});
}

// The memory is an input of the part that is made again.
TEST_P(CrossAttentionPass, MadeAgainHasTheSameBits) {
  const Case& of = GetParam();
  const layout::SequenceLayout rows = queries(), seen = memories();
  const auto gradients = [&](bool again) {
    Block block(of);
    LocalOps ops;
    Context context(ops, Precision::named("fp64"));
    const Tensor x = random_tensor({rows.tokens(), of.config.hidden}, 1).requires_grad_(),
                 memory = random_tensor({seen.tokens(), kMemoryHidden}, 2).requires_grad_();
    const auto run = [&](const std::vector<Tensor>& in) {
      Memory given = Memory::cut_from(in[1], seen);
      return std::vector<Tensor>{block.mixer.cross_forward(context, in[0], rows, given)};
    };
    const Tensor y =
        again ? kernels::recomputed("cross-attention", {.inputs = {x, memory},
                                                        .kept = {x, memory},
                                                        .run = run,
                                                        .inputs_again = [](const auto& kept) { return kept; },
                                                        .run_again = run})[0]
              : run({x, memory})[0];
    y.square().sum().backward();
    std::vector<Tensor> all = {y.detach(), x.grad(), memory.grad()};
    for (const auto& parameter : block.parameters.all()) all.push_back(parameter->grad.clone());
    return all;
  };
  const std::vector<Tensor> once = gradients(false), twice = gradients(true);
  for (size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(twice[i].equal(once[i])) << "tensor " << i;
}

INSTANTIATE_TEST_SUITE_P(Cases, CrossAttentionPass, ::testing::ValuesIn(cases()),
                         [](const auto& of) { return of.param.name; });

TEST(CrossAttention, AnEmptyMemoryIsReadAsZeros) {
  const Case of = cases()[0];
  Block block(of);
  LocalOps ops;
  Context context(ops, Precision::named("fp64"));
  const layout::SequenceLayout rows = layout::make_packed(std::vector<int64_t>{2, 3}),
                               none = layout::make_packed(std::vector<int64_t>{0, 0});
  const Tensor x = random_tensor({5, of.config.hidden}, 1).requires_grad_();
  Memory given = Memory::cut_from(at::zeros({0, kMemoryHidden}, at::kDouble), none);
  const Tensor y = block.mixer.cross_forward(context, x, rows, given);
  EXPECT_TRUE(y.eq(0).all().item<bool>());
  y.sum().backward();
  EXPECT_TRUE(x.grad().eq(0).all().item<bool>());
}

template <class Call>
std::string refused(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.fields().what + ": " + error.fields().expected + " expected, " + error.fields().found +
           " found";
  }
  return "accepted";
}

TEST(CrossAttention, WhatDoesNotFitIsRefusedByName) {
  const Case of = cases()[0];
  Block block(of);
  LocalOps ops;
  Context context(ops, Precision::named("fp64"));
  const Tensor x = random_tensor({5, of.config.hidden}, 1);
  const layout::SequenceLayout rows = layout::make_packed(std::vector<int64_t>{2, 3});
  const auto with = [&](const std::vector<int64_t>& lengths, const Tensor& own,
                        const layout::RowShare& share = {}) {
    Memory memory{.input = {own}, .view = {layout::make_packed(lengths), share}};
    return refused([&] { block.mixer.cross_forward(context, x, rows, memory); });
  };
  const Tensor seven = random_tensor({7, kMemoryHidden}, 2);
  EXPECT_EQ(with({7, 0}, seven), "accepted");
  EXPECT_THAT(with({7}, seven), HasSubstr("tower.mixer: the memory has other documents than the queries"));
  EXPECT_THAT(with({7}, seven), HasSubstr("2 documents, which may be empty expected, 1 found"));
  EXPECT_THAT(with({3, 3}, seven), HasSubstr("[6, channels] expected, [7, 10] found"));
  EXPECT_THAT(with({3, 4}, {}), HasSubstr("nothing found"));
  EXPECT_THAT(with({7, 0}, seven.narrow(0, 0, 4), {.tensor_ranks = 2}), HasSubstr("tensor ranks"));
  EXPECT_THAT(with({7, 0}, seven.narrow(0, 0, 4), {.context_ranks = 2}), HasSubstr("context ranks"));
  EXPECT_THAT(refused([&] { block.mixer.forward(context, x, rows, nullptr); }),
              HasSubstr("tower.mixer attends to a memory, and none was given"));
}

TEST(CrossAttention, MixersOfTheirOwnTokensRefuseAMemory) {
  for (size_t i = 0; i < names_of(recipe::Mixer()).size(); ++i) {
    recipe::ModelConfig config = small_config();
    config.layers = 1;
    config.mixers = {static_cast<recipe::Mixer>(i)};
    if (config.mixers[0] == recipe::Mixer::kMixture) config.mixture.linear = recipe::Mixer::kLightning;
    std::vector<layout::ParameterSpec> specs = layout::parameters(config);
    ParameterSet parameters(specs, Precision::named("fp64"), at::kCPU, Use::kInference);
    const auto mixer = make_mixer(config.mixers[0], config, {.name = "layers.0.mixer"}, parameters);
    LocalOps ops;
    Context context(ops, Precision::named("fp64"));
    Memory memory = Memory::cut_from(at::zeros({2, kMemoryHidden}, at::kDouble), layout::make_single(2));
    EXPECT_THAT(refused([&] {
                  mixer->cross_forward(context, at::zeros({2, config.hidden}, at::kDouble),
                                       layout::make_single(2), memory);
                }),
                HasSubstr("layers.0.mixer cannot attend to a memory"))
        << names_of(recipe::Mixer())[i];
  }
}

}  // namespace
}  // namespace longhaul::model::cross_attention_test
