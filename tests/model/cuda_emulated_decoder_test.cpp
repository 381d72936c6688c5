// Whole models through the CUDA kernels, emulated on the CPU: loss and gradients in bf16 are as near to
// fp64's as those of the CPU's own kernels, and the kernels answered, so that no operator of a training step
// falls back without being noticed. ctest: timeout=120
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "kernels/dispatch.h"
#include "on_emulated_gpu.h"
#include "support/models.h"

namespace longhaul::model {
namespace {

using namespace longhaul::testing;

// The loss, the auxiliary losses, then every gradient, in fp64.
std::vector<Tensor> step(const recipe::ModelConfig& config, const char* dtype) {
  Decoder decoder = filled_decoder(config, dtype);
  for (const auto& parameter : decoder.parameters().all()) {  // the numbers of bf16 in every dtype
    const at::NoGradGuard guard;
    parameter->value.copy_(parameter->value.to(at::kBFloat16));
  }
  auto layout = layout::make_packed(std::vector<int64_t>{13, 1, 9});
  layout.row_offsets = {0, 14, 23};
  const Tensor ids = id_tensor(random_ids(layout.tokens(), config.vocabulary, 31)),
               labels = id_tensor(random_ids(layout.tokens(), config.vocabulary, 32));
  labels[1] = layout::kIgnoreLabel;
  LocalOps ops;
  Context context(ops, decoder.precision());
  const Tensor loss = decoder.loss(context, decoder.hidden(context, ids, layout), labels);
  decoder.parameters().zero_gradients();
  loss.backward();
  std::vector<Tensor> results{loss.detach().to(at::kDouble)};
  for (const auto& [block, auxiliary] : context.auxiliary_losses)
    results.push_back(auxiliary.to(at::kDouble));
  for (const auto& parameter : decoder.parameters().all()) results.push_back(parameter->grad.to(at::kDouble));
  return results;
}

double distance(const Tensor& a, const Tensor& b) {
  return (a - b).norm().item<double>() / std::max(b.norm().item<double>(), 1e-30);
}

const std::map<recipe::Mixer, std::vector<const char*>> kOperators = {
    {recipe::Mixer::kSoftmax, {"split_heads", "attention"}},
    {recipe::Mixer::kLightning, {"silu_heads", "linear_recurrence", "rms_norm"}},
    {recipe::Mixer::kHgrn2, {"linear_recurrence", "rms_norm"}},
    {recipe::Mixer::kTnl, {"linear_recurrence", "rms_norm"}},
    {recipe::Mixer::kRetnet, {"linear_recurrence", "rms_norm"}},
    {recipe::Mixer::kGla, {"linear_recurrence", "rms_norm"}},
    {recipe::Mixer::kCosformer, {"linear_recurrence"}},
    {recipe::Mixer::kCosformer2, {"linear_recurrence", "rms_norm"}},
    {recipe::Mixer::kLightnet, {"linear_recurrence", "rms_norm"}},
    {recipe::Mixer::kMetala, {"linear_recurrence", "layer_norm"}},
    {recipe::Mixer::kMamba2, {"linear_recurrence", "rms_norm"}},
    {recipe::Mixer::kHgrn, {"layer_norm"}},  // its scan has no form on GPUs yet
    // The model with both ends with kda, whose decays by channel are left to LibTorch.
    {recipe::Mixer::kGatedDeltaNet, {"rms_norm"}},
    {recipe::Mixer::kKda, {"rms_norm"}},
    {recipe::Mixer::kDeltaNet, {"delta_rule", "rms_norm"}},
    {recipe::Mixer::kMla, {"split_heads", "attention", "rms_norm"}},
    {recipe::Mixer::kLcsm, {"linear_recurrence", "layer_norm"}},
};

class EmulatedModels : public ::testing::TestWithParam<NamedConfig> {};

TEST_P(EmulatedModels, AreAsExactAsOnTheCpu) {
  const recipe::ModelConfig& config = GetParam().config;
  const auto exact = step(config, "fp64"), on_cpu = step(config, "bf16");
  const OnEmulatedGpu gpu;
  const auto found = step(config, "bf16");
  std::vector<std::string> ops = {"embedding", "linear_cross_entropy", "join_norm"};
  std::vector<recipe::Mixer> mixers = config.mixers;
  if (std::ranges::find(mixers, recipe::Mixer::kMixture) != mixers.end()) {
    std::erase(mixers, recipe::Mixer::kMixture);
    mixers.insert(mixers.end(), {recipe::Mixer::kSoftmax, config.mixture.linear});
  }
  for (const auto mixer : mixers) {
    for (const char* op : kOperators.at(mixer)) ops.emplace_back(op);
  }
  if (config.channel == recipe::Channel::kGelu) ops.emplace_back("bias_gelu");
  if (config.channel == recipe::Channel::kSwiglu) ops.emplace_back("swiglu");
  if (config.experts > 0)
    ops.insert(ops.end(), {"assign_experts", "permute_to_experts", "combine_experts", "grouped_linear",
                           "grouped_linear_weight_gradient"});
  const recipe::RouterOptions& router = config.router;
  const bool plain = router.score == recipe::RouterScore::kSoftmax && router.normalised &&
                     router.scale == 1 && router.groups == 1;
  if (config.experts > 0 && plain) ops.emplace_back("route");  // others: in LibTorch's operators
  for (const std::string& op : ops) {
    const std::string chosen = kernels::Dispatcher::last(op).chosen;
    EXPECT_TRUE(chosen == "cuda" || (op == "attention" && chosen == "flash")) << op << ": " << chosen;
  }
  ASSERT_EQ(found.size(), exact.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const double error = distance(found[i], exact[i]), expected = distance(on_cpu[i], exact[i]);
    EXPECT_LT(error, 2 * expected + 5e-3) << i << " (of the CPU: " << expected << ")";
  }
}
INSTANTIATE_TEST_SUITE_P(Kinds, EmulatedModels, ::testing::ValuesIn(small_models()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace longhaul::model
