// The blocks of a decoder, each against its definition: decay slopes, rotary positions, experts,
// initialisation.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <functional>

#include "model/experts/experts.h"
#include "model/mixers/lightning_attention.h"
#include "support/models.h"

namespace longhaul::model {
namespace {

using namespace longhaul::testing;
using recipe::LayerFactor;

// docs/sources/minimax-01.md §2.2, 64 heads and 80 layers: seven digits, the last of some cut off rather than
// rounded.
TEST(LightningSlopes, KnownValues) {
  const auto first = lightning_slopes(64, 0, 80, {}), late = lightning_slopes(64, 78, 80, {});
  EXPECT_NEAR(first[0], 0.9170132, 5e-8);
  EXPECT_NEAR(first[31], 0.06250062, 5e-9);
  EXPECT_NEAR(first[63], 0.003906289, 5e-10);
  EXPECT_NEAR(late[0], 0.01161682, 5e-9);
  EXPECT_NEAR(late[63], 4.948526e-5, 1e-11);
}

TEST(LightningSlopes, HeadCountsThatAreNoPowerOfTwo) {
  const auto slopes = lightning_slopes(6, 0, 1, {});
  const double factor = 1 + 1e-5;
  const double expected[] = {std::exp2(-2), std::exp2(-4), std::exp2(-6),
                             std::exp2(-8), std::exp2(-1), std::exp2(-3)};
  for (size_t h = 0; h < 6; ++h) EXPECT_NEAR(slopes[h], expected[h] * factor, 1e-15) << h;
  const auto plain = lightning_slopes(6, 0, 1, {.layer_factor = LayerFactor::kHuggingFace});
  for (size_t h = 0; h < 6; ++h)
    EXPECT_NEAR(plain[h], std::exp2(-8.0 * static_cast<double>(h + 1) / 6) * factor, 1e-15) << h;
}

TEST(ResidualAlpha, KnownValue) {
  recipe::ModelConfig config;
  config.layers = 80;
  EXPECT_EQ(config.residual_alpha(), 1);
  config.wiring = recipe::Wiring::kPostNorm;
  EXPECT_DOUBLE_EQ(config.residual_alpha(), 3.5565588200778455);
}

// Asked again with the same positions it is the same table; another question gets its own answer.
TEST(RotaryTables, KeepTheLastAnswer) {
  RotaryTables tables;
  const auto frequencies = [](int64_t dim, double base) {
    return recipe::SoftmaxOptions{.rotary_dim = dim, .rotary_base = base}.rotary_frequencies();
  };
  const std::vector<int64_t> first = {0, 1, 2}, second = {0, 1, 3};
  const Tensor cos = tables.table(first, frequencies(6, 10000), at::kDouble, at::kCPU).cos_tr;
  EXPECT_TRUE(tables.table(first, frequencies(6, 10000), at::kDouble, at::kCPU).cos_tr.is_same(cos));
  const Tensor other = tables.table(second, frequencies(6, 10000), at::kDouble, at::kCPU).cos_tr;
  EXPECT_FALSE(other.equal(cos));
  EXPECT_TRUE(other.equal(kernels::rotary_table(second, 6, 10000, at::kDouble).cos_tr));
  EXPECT_FALSE(tables.table(second, frequencies(6, 500000), at::kDouble, at::kCPU).cos_tr.equal(other));
  EXPECT_EQ(tables.table(second, frequencies(4, 10000), at::kDouble, at::kCPU).cos_tr.size(1), 2);
  EXPECT_EQ(tables.table(second, frequencies(4, 10000), at::kFloat, at::kCPU).cos_tr.scalar_type(),
            at::kFloat);
}

std::vector<layout::ParameterSpec> specs_of_experts(const recipe::ModelConfig& config) {
  std::vector<layout::ParameterSpec> specs = layout::parameters(config);
  std::erase_if(specs, [](const layout::ParameterSpec& spec) {
    return !spec.tensor.name.starts_with("layers.0.experts.") &&
           !spec.tensor.name.starts_with("layers.0.router.");
  });
  return specs;
}

struct ExpertsOfOneLayer {
  recipe::ModelConfig config;
  ParameterSet parameters;
  Experts experts;
  LocalOps ops;
  Context context{ops, Precision::named("fp64")};

  explicit ExpertsOfOneLayer(const recipe::ModelConfig& of)
      : config(of),
        parameters(specs_of_experts(of), Precision::named("fp64"), at::kCPU),
        experts(of, {.layer = 0, .name = "layers.0"}, parameters) {
    parameters.allocate();
    parameters.initialise(3);
  }
  Tensor value(const std::string& name) {
    size_t part = 0;
    Parameter* holder = parameters.holder_of("layers.0." + name + ".weight", &part);
    return holder->part_of(holder->value.detach(), part);
  }
  Tensor forward(const Tensor& x) { return experts.forward(context, x, layout::make_single(x.size(0))); }
  double auxiliary_loss() const { return context.auxiliary_losses.at("layers.0.experts").item<double>(); }
};

recipe::ModelConfig expert_config() {
  recipe::ModelConfig config = hybrid_experts_post_norm();
  config.layers = 1;
  config.z_loss = 0;
  return config;
}

TEST(ExpertsBlock, OutputIsTheWeightedSumOfTheChosenExperts) {
  ExpertsOfOneLayer layer(expert_config());
  const Tensor x = random_tensor({9, layer.config.hidden}, 4);
  const at::NoGradGuard guard;
  const Tensor y = layer.forward(x);
  for (int64_t t = 0; t < x.size(0); ++t) {
    const Tensor probability = at::mv(layer.value("router"), x[t]).softmax(0);
    const Tensor order = probability.argsort(0, /*descending=*/true);
    const auto chosen = [&](int64_t i) { return order[i].item<int64_t>(); };
    const Tensor scale = probability[chosen(0)] + probability[chosen(1)];
    Tensor sum = at::zeros({layer.config.hidden}, at::kDouble), weights = at::zeros({}, at::kDouble);
    for (int64_t i = 0; i < 2; ++i) {
      const std::string name = fmt::format("experts.{}.", chosen(i));
      const Tensor inner =
          at::silu(at::mv(layer.value(name + "gate"), x[t])) * at::mv(layer.value(name + "up"), x[t]);
      const Tensor weight = probability[chosen(i)] / scale;
      sum += weight * at::mv(layer.value(name + "down"), inner);
      weights += weight;
    }
    EXPECT_NEAR(weights.item<double>(), 1, 1e-15);
    EXPECT_LT(relative_error(y[t], sum), 1e-12) << t;
  }
}

// Equal experts hide which one was chosen: what remains is the sum of the weights, which is one.
TEST(ExpertsBlock, WeightsSumToOne) {
  ExpertsOfOneLayer layer(expert_config());
  for (int64_t e = 1; e < layer.config.experts; ++e) {
    for (const char* matrix : {"gate", "up", "down"})
      layer.value(fmt::format("experts.{}.{}", e, matrix))
          .copy_(layer.value(fmt::format("experts.0.{}", matrix)));
  }
  const Tensor x = random_tensor({9, layer.config.hidden}, 4);
  const at::NoGradGuard guard;
  const Tensor inner =
      at::silu(at::mm(x, layer.value("experts.0.gate").t())) * at::mm(x, layer.value("experts.0.up").t());
  EXPECT_LT(relative_error(layer.forward(x), at::mm(inner, layer.value("experts.0.down").t())), 1e-13);
}

TEST(ExpertsBlock, BalancedRoutingCostsTheCoefficientPerToken) {
  ExpertsOfOneLayer layer(expert_config());
  const int64_t experts = layer.config.experts, tokens = 3 * experts;
  // Token t is basis vector t mod E and likes experts t and t + 1: every expert gets the same number.
  Tensor router = layer.value("router");
  router.zero_();
  Tensor x = at::zeros({tokens, layer.config.hidden}, at::kDouble);
  for (int64_t e = 0; e < experts; ++e) {
    router.select(0, e).select(0, e).fill_(2.0);
    router.select(0, (e + 1) % experts).select(0, e).fill_(1.0);
  }
  for (int64_t t = 0; t < tokens; ++t) x.select(0, t).select(0, t % experts).fill_(1);
  layer.forward(x);
  EXPECT_NEAR(layer.auxiliary_loss(), layer.config.auxiliary_loss * static_cast<double>(tokens), 1e-12);
  EXPECT_NEAR(layer.context.statistics.at(kBusiestOverMean).at("layers.0.experts").item<double>(), 1.0,
              1e-15);
  layer.context.training = false;
  layer.context.auxiliary_losses.clear();
  layer.forward(x);
  EXPECT_TRUE(layer.context.auxiliary_losses.empty()) << "none outside training";
}

TEST(ExpertsBlock, ZLossOfEqualLogits) {
  recipe::ModelConfig config = expert_config();
  config.auxiliary_loss = 0;
  config.z_loss = 0.5;
  ExpertsOfOneLayer layer(config);
  layer.value("router").zero_();  // logsumexp = ln E
  layer.forward(random_tensor({7, config.hidden}, 4));
  EXPECT_NEAR(layer.auxiliary_loss(), 0.5 * 7 * std::pow(std::log(4.0), 2), 1e-12);
}

// Runs `forward` without keeping what its backward pass needs, and once more in the backward pass, as
// torch.utils.checkpoint does.
class Recomputed : public torch::autograd::Function<Recomputed> {
 public:
  using Forward = std::function<Tensor(const Tensor&)>;
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, Forward* block) {
    context->save_for_backward({x});
    context->saved_data["block"] = reinterpret_cast<int64_t>(block);
    return (*block)(x);  // gradients are off here
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const Tensor x = context->get_saved_variables()[0].detach().requires_grad_(true);
    {
      const at::AutoGradMode on(true);
      (*reinterpret_cast<Forward*>(context->saved_data["block"].toInt()))(x).backward(gradients[0]);
    }
    return {x.grad(), Tensor()};
  }
};

// The backward pass meets the auxiliary losses once however often the forward pass ran, and they are reported
// once.
TEST(ExpertsBlock, RecomputationCountsAuxiliaryLossesOnce) {
  recipe::ModelConfig config = expert_config();
  config.z_loss = 0.5;
  ExpertsOfOneLayer kept(config), recomputed(config), without(config);
  without.context.training = false;
  const Tensor x = random_tensor({9, config.hidden}, 4).requires_grad_(true),
               again = x.detach().clone().requires_grad_(true), dy = random_tensor({9, config.hidden}, 5);
  kept.forward(x).backward(dy);
  Recomputed::Forward block = [&](const Tensor& hidden) { return recomputed.forward(hidden); };
  Recomputed::apply(again, &block).backward(dy);
  without.forward(x.detach().requires_grad_(true)).backward(dy);
  EXPECT_EQ(recomputed.context.auxiliary_losses.size(), 1u);
  EXPECT_EQ(recomputed.auxiliary_loss(), kept.auxiliary_loss());
  EXPECT_TRUE(again.grad().equal(x.grad()));
  for (size_t p = 0; p < kept.parameters.all().size(); ++p) {
    const Parameter& parameter = *kept.parameters.all()[p];
    EXPECT_TRUE(recomputed.parameters.all()[p]->grad.equal(parameter.grad)) << parameter.name;
  }
  const auto router = [](ExpertsOfOneLayer& layer) {
    return layer.parameters.holder_of("layers.0.router.weight")->grad;
  };
  EXPECT_GT(relative_error(router(kept), router(without)), 1e-3) << "the losses are trained";
}

// Two sequences, each unbalanced another way, are not balanced because their sum is.
TEST(ExpertsBlock, BalanceIsAskedOfEverySequence) {
  recipe::ModelConfig config = expert_config();
  config.experts = 2;
  config.experts_per_token = 1;
  ExpertsOfOneLayer layer(config);
  Tensor router = layer.value("router");
  router.zero_();
  Tensor x = at::zeros({8, config.hidden}, at::kDouble);
  for (int64_t e = 0; e < 2; ++e) {
    router[e].select(0, e).fill_(40);  // certain
    x.narrow(0, 4 * e, 4).select(1, e).fill_(1);
  }
  auto layout = layout::make_single(8);
  layer.experts.forward(layer.context, x, layout);
  EXPECT_NEAR(layer.auxiliary_loss(), config.auxiliary_loss * 8, 1e-12) << "one sequence: balanced";
  layout = layout::make_batch(2, 4);
  layer.experts.forward(layer.context, x, layout);
  EXPECT_NEAR(layer.auxiliary_loss(), config.auxiliary_loss * 8 * 2, 1e-12)
      << "all tokens of a sequence go to one of two experts";
  EXPECT_NEAR(layer.context.statistics.at(kBusiestOverMean).at("layers.0.experts").item<double>(),
              0.5 * static_cast<double>(layer.config.experts), 1e-14);
}

TEST(Initialise, SameSeedSameNumbersWithTheStandardDeviationOfTheList) {
  recipe::ModelConfig config = hybrid_experts_post_norm();
  config.hidden = 64;
  config.intermediate = 96;
  Decoder a(config, Precision::named("fp64")), b(config, Precision::named("fp64")),
      other(config, Precision::named("fp64"));
  a.parameters().initialise(1);
  b.parameters().initialise(1);
  other.parameters().initialise(2);
  for (size_t p = 0; p < a.parameters().all().size(); ++p) {
    Parameter& parameter = *a.parameters().all()[p];
    EXPECT_TRUE(parameter.value.equal(b.parameters().all()[p]->value)) << parameter.name;
    for (size_t i = 0; i < parameter.parts.size(); ++i) {
      const auto& spec = parameter.parts[i].spec;
      const Tensor value = parameter.part_of(parameter.value.detach(), i);
      if (spec.init.kind == layout::Init::Kind::kOnes) {
        EXPECT_TRUE(value.eq(1).all().item<bool>()) << spec.tensor.name;
        continue;
      }
      ASSERT_EQ(spec.init.kind, layout::Init::Kind::kNormal) << spec.tensor.name;
      const double n = static_cast<double>(value.numel()), std = spec.init.std;
      EXPECT_NEAR(value.mean().item<double>(), 0, 5 * std / std::sqrt(n)) << spec.tensor.name;
      EXPECT_NEAR(value.std().item<double>(), std, 5 * std / std::sqrt(2 * n)) << spec.tensor.name;
      EXPECT_FALSE(value.equal(parameter.part_of(other.parameters().all()[p]->value.detach(), i)))
          << spec.tensor.name;
    }
  }
}

// Numbers follow the logical tensor, not the storage: rounding of the same ones in every precision.
TEST(Initialise, LowerPrecisionsRoundTheSameNumbers) {
  Decoder wide(llama_like(), Precision::named("fp64")), narrow(llama_like(), Precision::named("bf16"));
  wide.parameters().initialise(1);
  narrow.parameters().initialise(1);
  for (size_t p = 0; p < wide.parameters().all().size(); ++p) {
    const Tensor value = narrow.parameters().all()[p]->value.detach();
    EXPECT_LT(relative_error(value, wide.parameters().all()[p]->value.detach()), 4e-3);  // bf16: 2^-8
  }
}

}  // namespace
}  // namespace longhaul::model
