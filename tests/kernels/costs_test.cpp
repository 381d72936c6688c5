// What a call of an operator costs besides its arithmetic, on its second call, when scratch memory is there:
// memory beyond its results (a hidden copy of an activation would show), LibTorch operators that move data,
// and parallel regions.
#include <ATen/record_function.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <set>

#include "base/threads/parallel.h"
#include "kernels/activation/op.h"
#include "kernels/attention/op.h"
#include "kernels/embedding/op.h"
#include "kernels/experts/op.h"
#include "kernels/linear/feed_forward.h"
#include "kernels/linear_cross_entropy/op.h"
#include "kernels/linear_recurrence/op.h"
#include "kernels/norm/op.h"
#include "kernels/rotary_heads/op.h"
#include "support/tensors.h"
#include "tensor/cpu_allocator.h"

namespace longhaul::kernels::costs_test {
namespace {

using namespace longhaul::testing;
using Tensors = std::vector<Tensor>;
using Op = std::function<Tensors(const Tensors&)>;

constexpr ScalarType kType = at::kBFloat16;
constexpr int64_t kTokens = 512, kChannels = 256, kHeads = 4, kWidth = 64;
constexpr int64_t kActivation = kTokens * kChannels * 2;  // bytes: the smallest copy that may not happen

// Make memory, views, or nothing at all. `to` and `contiguous` that do copy call _to_copy and clone.
const std::set<std::string> kHarmless = {
    "aten::empty",  "aten::empty_like", "aten::empty_strided", "aten::detach", "detach",
    "aten::to",     "aten::view",       "aten::narrow",        "aten::slice",  "aten::as_strided",
    "aten::select", "aten::reshape",    "aten::alias"};

struct Cost {
  int64_t bytes = 0;  // at the highest, beyond what was there before and what is returned
  int64_t regions = 0;
  std::set<std::string> operators;  // of LibTorch, but for the harmless ones and autograd's own
};
std::set<std::string> called;

Cost cost_of(const std::function<Tensors()>& body) {
  body();
  called.clear();
  const int64_t regions = parallel_regions(), bytes = memory_statistics().total.bytes;
  reset_memory_peaks();
  const auto observer =
      at::addThreadLocalCallback(at::RecordFunctionCallback([](const at::RecordFunction& function) {
                                   called.insert(function.name());
                                   return std::unique_ptr<at::ObserverContext>();
                                 }).scopes({at::RecordScope::FUNCTION}));
  const Tensors results = body();
  at::removeCallback(observer);
  Cost cost{memory_statistics().total.peak - bytes, parallel_regions() - regions, {}};
  std::set<const void*> counted;
  for (const Tensor& result : results) {
    if (result.defined() && counted.insert(result.storage().data()).second)
      cost.bytes -= static_cast<int64_t>(result.storage().nbytes());
  }
  for (const std::string& name : called) {
    if (!kHarmless.contains(name) && !name.starts_with("autograd::engine")) cost.operators.insert(name);
  }
  return cost;
}

struct Limit {
  int64_t regions = 1;
  int64_t bytes = kActivation / 4;       // room for statistics of rows and sums of columns
  std::set<std::string> operators = {};  // of LibTorch, with the reason where it is written
};

void expect_within(const Cost& cost, const Limit& limit, const char* name) {
  EXPECT_LE(cost.regions, limit.regions) << name;
  EXPECT_LE(cost.bytes, limit.bytes) << name;
  std::set<std::string> unexpected;
  std::ranges::set_difference(cost.operators, limit.operators, std::inserter(unexpected, unexpected.end()));
  EXPECT_TRUE(unexpected.empty()) << name << " called " << fmt::format("{}", fmt::join(unexpected, ", "));
}

void expect_costs(const char* name, const Tensors& inputs, const Op& op, const Limit& forward,
                  const Limit& backward) {
  Tensors leaves;
  for (const Tensor& input : inputs) leaves.push_back(input.detach().requires_grad_(true));
  expect_within(cost_of([&] { return op(leaves); }), forward, fmt::format("{} forward", name).c_str());
  const Tensors outputs = op(leaves);
  Tensors seeds;
  for (const Tensor& output : outputs) seeds.push_back(at::ones_like(output));
  const Cost cost = cost_of([&] {
    return torch::autograd::grad(outputs, leaves, seeds, /*retain_graph=*/true, false, /*allow_unused=*/true);
  });
  expect_within(cost, backward, fmt::format("{} backward", name).c_str());
}

class OperatorCosts : public ::testing::Test {
 protected:
  void SetUp() override {
    install_cpu_allocator();
    threads_ = threads();
    set_threads(2);
  }
  void TearDown() override { set_threads(threads_); }
  int threads_ = 1;
};

Tensor activation(uint64_t seed, int64_t channels = kChannels) {
  return random_tensor({kTokens, channels}, seed, kType);
}
Tensor channels(uint64_t seed) { return random_tensor({kChannels}, seed, at::kFloat); }
// q, k and v as a model has them: views of one tensor, rows far apart.
Tensors qkv(int64_t tokens) {
  const Tensor fused = random_tensor({tokens, 3 * kHeads, kWidth}, 1, kType);
  return {fused.narrow(1, 0, kHeads), fused.narrow(1, kHeads, kHeads), fused.narrow(1, 2 * kHeads, kHeads)};
}

TEST_F(OperatorCosts, NormsAndActivations) {
  const Limit sums{// of the weight's gradient, over blocks of rows
                   1,
                   kActivation * 3 / 4,
                   {"aten::zeros_like", "aten::zero_", "aten::add_"}};
  expect_costs(
      "rms_norm", {activation(1), channels(2)},
      [](const Tensors& in) { return Tensors{rms_norm(in[0], in[1], 1e-5)}; }, {}, sums);
  expect_costs(
      "layer_norm", {activation(1), channels(2), channels(3)},
      [](const Tensors& in) { return Tensors{layer_norm(in[0], in[1], in[2], 1e-5)}; }, {}, sums);
  expect_costs(
      "join_norm", {activation(1), activation(2), channels(3)},
      [](const Tensors& in) {
        const JoinedNorm result = join_norm(NormKind::kRms, in[0], in[1], 1, 1, in[2], {}, 1e-5);
        return Tensors{result.joined_tc, result.normed_tc};
      },
      {}, sums);
  expect_costs("swiglu", {activation(1, 2 * kChannels)},
               [](const Tensors& in) { return Tensors{swiglu(in[0])}; }, {}, {});
  const Tensor sink = at::zeros({kChannels}, at::kFloat);
  expect_costs(
      "bias_gelu", {activation(1), channels(2).to(kType)},
      [&](const Tensors& in) { return Tensors{bias_gelu(in[0], in[1], sink)}; }, {}, sums);
  const auto heads = [](const Heads& result) { return Tensors{result.q_thd, result.k_thd, result.v_thd}; };
  expect_costs("silu_heads", {activation(1, 3 * kChannels)},
               [&](const Tensors& in) { return heads(silu_heads(in[0], kHeads, kHeads, kWidth)); }, {}, {});
}

TEST_F(OperatorCosts, Attention) {
  expect_costs("attention", qkv(kTokens),
               [](const Tensors& in) {
                 const AttentionResult result = attention(in[0], in[1], in[2], {}, {}, {.scale = 0.125});
                 return Tensors{result.o_thd, result.logsumexp_th};
               },
               {}, {.regions = 2});  // do·o of every row first: a part of the keys could not know it
}

TEST_F(OperatorCosts, LinearRecurrence) {
  // A state for each segment of 512 tokens and head, what two threads work in, and little else: less than one
  // copy of q. The largest decay per head is looked for first, and its gradient is a sum over tokens. Decays
  // per channel are read once.
  constexpr int64_t kLong = 8 * kTokens;
  const Limit states{
      1, 8 * kActivation, {"aten::max", "aten::item", "aten::_local_scalar_dense", "aten::fill_"}};
  Tensors inputs = qkv(kLong);
  inputs.push_back(random_tensor({kHeads}, 4, at::kFloat).abs().neg());
  const Op op = [](const Tensors& in) {
    const LinearRecurrenceResult result = linear_recurrence(in[0], in[1], in[2], in[3], {}, {});
    return Tensors{result.o_thd, result.final_state_nhkv};
  };
  expect_costs("linear_recurrence, decay per head", inputs, op, states, states);
  inputs.back() = random_tensor({kLong, kHeads, kWidth}, 4, at::kFloat).abs().neg();
  const Limit read_once{states.regions, states.bytes, {}};
  expect_costs("linear_recurrence, decay per channel", inputs, op, read_once, read_once);
}

TEST_F(OperatorCosts, ProductsAndExperts) {
  PackedWeight up_copies, down_copies;
  const auto weight = [](int64_t out, int64_t in, uint64_t seed, PackedWeight* copies) {
    LinearWeights result;
    result.weight = random_tensor({out, in}, seed, kType);
    result.sinks.weight = at::zeros({out, in}, at::kFloat);
    result.kept = {copies, 1};
    return result;
  };
  const LinearWeights up = weight(4 * kChannels, kChannels, 5, &up_copies),
                      down = weight(kChannels, 4 * kChannels, 6, &down_copies);
  // The gradient of a weight takes two regions: its operands are packed first. That of x, like y, takes one.
  expect_costs("linear", {activation(1)},
               [&](const Tensors& in) { return Tensors{linear(in[0], up.weight, {}, up.sinks, up.kept)}; },
               {}, {3});
  // Kept for the backward pass: z and the activation, four times as wide as x. There dz is, and each of two
  // weights wants its two gradients.
  expect_costs("feed_forward", {activation(1)},
               [&](const Tensors& in) { return Tensors{feed_forward(in[0], Activation::kGelu, up, down)}; },
               {2, 8 * kActivation}, {6, 4 * kActivation});
  const ExpertAssignment assignment =
      assign_experts(at::arange(2 * kTokens).remainder(8).view({kTokens, 2}), 8);
  expect_costs("permute_to_experts", {activation(1)},
               [&](const Tensors& in) { return Tensors{permute_to_experts(in[0], assignment)}; }, {}, {});
  expect_costs(
      "combine_experts",
      {random_tensor({2 * kTokens, kChannels}, 1, kType), random_tensor({kTokens, 2}, 2, at::kFloat)},
      [&](const Tensors& in) { return Tensors{combine_experts(in[0], in[1], assignment)}; }, {}, {});
}

TEST_F(OperatorCosts, EmbeddingAndLoss) {
  const Tensor ids = at::arange(kTokens).remainder(300);
  const Tensor table = random_tensor({300, kChannels}, 1, kType),
               sink = at::zeros({300, kChannels}, at::kFloat);
  expect_within(cost_of([&] { return Tensors{embedding(ids, {table, sink})}; }), {}, "embedding forward");

  // Three regions a chunk: its rows, its hidden states packed, the vocabulary's gradients. Between them a
  // chunk's terms are kept, and its packed hidden states. The sum of the losses goes over doubles on the
  // host.
  constexpr int64_t kVocabulary = 4096, kChunk = 128;
  const Tensor head = random_tensor({kVocabulary, kChannels}, 2, kType),
               head_sink = at::zeros({kVocabulary, kChannels}, at::kFloat);
  PackedWeight copies;
  const Tensor hidden = activation(1).requires_grad_(true);
  const Cost cost = cost_of([&] {
    const Tensor loss =
        linear_cross_entropy_sum(hidden, head, ids, head_sink, {.chunk = kChunk}, {&copies, 1});
    return torch::autograd::grad({loss}, {hidden});
  });
  const std::set<std::string> on_labels_and_losses = {"aten::_local_scalar_dense",
                                                      "aten::_to_copy",
                                                      "aten::all",
                                                      "aten::copy_",
                                                      "aten::fill_",
                                                      "aten::full",
                                                      "aten::ge",
                                                      "aten::item",
                                                      "aten::max",
                                                      "aten::ones_like"};
  expect_within(
      cost,
      {3 * kTokens / kChunk, kChunk * kVocabulary * 2 + kActivation + kActivation / 4, on_labels_and_losses},
      "linear_cross_entropy");
}

}  // namespace
}  // namespace longhaul::kernels::costs_test
