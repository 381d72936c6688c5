// A model with adapters beside the same model without them whose weights are W + scale · B A, worked out
// here: the same loss, and the gradients of A and B are those that the chain rule gives from the other
// model's gradient of the whole weight. In fp64, for a model of every kind.
// ctest: timeout=240
#include "layout/adapters.h"

#include <gtest/gtest.h>

#include "model/state.h"
#include "support/models.h"
#include "support/variant_models.h"

namespace longhaul::model {
namespace {

using namespace longhaul::testing;
using recipe::AdapterKind;

constexpr int64_t kTokensOfText = 19;

struct Tensors {
  std::map<std::string, Tensor> values, gradients;
};

Tensors tensors_of(Decoder& decoder) {
  Tensors all;
  for (const auto& parameter : decoder.parameters().all()) {
    for (size_t i = 0; i < parameter->parts.size(); ++i) {
      const std::string& name = parameter->parts[i].spec.tensor.name;
      all.values[name] = parameter->part_of(parameter->value.detach(), i).clone();
      if (parameter->trainable()) all.gradients[name] = parameter->part_of(parameter->grad, i).clone();
    }
  }
  return all;
}

// Loss, and its gradients.
double loss_of(Decoder& decoder, recipe::Recompute recompute = recipe::Recompute::kNone) {
  decoder.set_recompute(recompute);
  decoder.parameters().zero_gradients();
  LocalOps ops;
  Context context(ops, decoder.precision());
  const std::vector<int64_t> numbers = random_ids(kTokensOfText, decoder.config().vocabulary, 3);
  const auto layout = layout::make_packed(std::vector<int64_t>{11, 8});
  const Tensor ids = id_tensor(numbers), labels = id_tensor(layout::shifted_labels(layout, numbers));
  const Tensor loss = decoder.loss(context, decoder.hidden(context, ids, layout), labels);
  loss.backward();
  return loss.item<double>();
}

recipe::ModelConfig with_adapters(recipe::ModelConfig config, AdapterKind kind,
                                  std::vector<std::string> targets = {"all-linear"}) {
  config.lora = {.rank = 3, .alpha = 5, .targets = std::move(targets), .kind = kind};
  return config;
}

struct Scaled {
  Tensor weight, factor;  // what the product computes with; DoRA: by which its rows are multiplied
};

Scaled plain_weight(const Tensors& of, const std::string& name, const recipe::AdapterOptions& lora) {
  const Tensor& weight = of.values.at(name);
  const double scale = lora.kind == AdapterKind::kRslora
                           ? lora.alpha / std::sqrt(static_cast<double>(lora.rank))
                           : lora.alpha / static_cast<double>(lora.rank);
  const Tensor sum = weight + at::mm(of.values.at(layout::adapter_up_name(name)),
                                     of.values.at(layout::adapter_down_name(name))) *
                                  scale;
  if (lora.kind != AdapterKind::kDora) return {sum, {}};
  const auto lengths = [](const Tensor& rows) { return rows.mul(rows).sum(1).sqrt(); };
  const Tensor factor = (lengths(weight) + of.values.at(layout::adapter_magnitude_name(name))) / lengths(sum);
  return {sum * factor.unsqueeze(1), factor};
}

void expect_as_merged(const recipe::ModelConfig& config, const std::string& name) {
  Decoder adapted = filled_decoder(config);
  const double loss = loss_of(adapted);
  const Tensors ours = tensors_of(adapted);
  recipe::ModelConfig plain = config;
  plain.lora = {};
  Decoder merged(plain, Precision::named("fp64"));
  std::map<std::string, Tensor> factors;
  for (const auto& parameter : merged.parameters().all()) {
    for (size_t i = 0; i < parameter->parts.size(); ++i) {
      const layout::ParameterSpec& spec = parameter->parts[i].spec;
      Scaled scaled{ours.values.at(spec.tensor.name), {}};
      if (layout::is_adapted(config.lora, spec)) scaled = plain_weight(ours, spec.tensor.name, config.lora);
      parameter->part_of(parameter->value.detach(), i).copy_(scaled.weight);
      factors[spec.tensor.name] = scaled.factor;
    }
    parameter->written();
  }
  EXPECT_NEAR(loss, loss_of(merged), 1e-9 * std::abs(loss)) << name;
  const Tensors theirs = tensors_of(merged);
  double largest = 0;
  for (const auto& [tensor, gradient] : theirs.gradients)
    largest = std::max(largest, gradient.abs().max().item<double>());
  int64_t seen = 0;
  for (const auto& [tensor, weight] : theirs.values) {
    if (!ours.values.contains(
            layout::adapter_down_name(tensor.ends_with(".weight") ? tensor : "none.weight")))
      continue;
    ++seen;
    Tensor whole = theirs.gradients.at(tensor);
    const Tensor &a = ours.values.at(layout::adapter_down_name(tensor)),
                 &b = ours.values.at(layout::adapter_up_name(tensor));
    if (factors.at(tensor).defined()) {
      // y = m/n (V x): of the length the gradient is that of the whole weight along the row's direction.
      const Tensor direction = weight / weight.mul(weight).sum(1).sqrt().unsqueeze(1);
      const Tensor of_length = whole.mul(direction).sum(1);
      EXPECT_LT(
          (of_length - ours.gradients.at(layout::adapter_magnitude_name(tensor))).abs().max().item<double>(),
          1e-9 * largest)
          << tensor;
      whole = whole * factors.at(tensor).unsqueeze(1);
    }
    const double scale = config.lora.scale();
    const auto expect = [&](const Tensor& expected, const std::string& named) {
      EXPECT_LT((expected - ours.gradients.at(named)).abs().max().item<double>(), 1e-9 * largest)
          << name << ": " << named;
    };
    expect(at::mm(whole, a.t()) * scale, layout::adapter_up_name(tensor));
    expect(at::mm(b.t(), whole) * scale, layout::adapter_down_name(tensor));
  }
  EXPECT_GT(seen, 0) << name;
  EXPECT_EQ(ours.gradients.size(),
            static_cast<size_t>(seen) * (config.lora.kind == AdapterKind::kDora ? 3 : 2))
      << name << ": nothing else trains";
}

TEST(ModelAdapters, OfEveryModelAreTheMergedWeights) {
  std::vector<NamedConfig> all = small_models();
  for (const NamedConfig& variant : variant_models()) all.push_back(variant);
  for (const NamedConfig& named : all)
    expect_as_merged(with_adapters(named.config, AdapterKind::kLora), named.name);
}

TEST(ModelAdapters, OfSomeMatricesOfAProduct) {
  for (const auto& targets : {std::vector<std::string>{"value"},
                              {"query", "key"},
                              {"layers.1.*"},
                              {"gate"},
                              {"up"},
                              {"down"},
                              {"output"}})
    expect_as_merged(with_adapters(llama_like(), AdapterKind::kRslora, targets), targets[0]);
  for (const auto& targets : {std::vector<std::string>{"*.experts.*.up.weight"},
                              {"*.experts.*.gate.weight"},
                              {"*.experts.*.down.weight"}})
    expect_as_merged(with_adapters(hybrid_experts_post_norm(), AdapterKind::kLora, targets), targets[0]);
}

TEST(ModelAdapters, OfDoraHaveTheLengthsOfRows) {
  for (const auto& [name, config] :
       {std::pair{"llama", llama_like()}, {"gpt2", gpt2_like()}, {"delta", delta_hybrid()}})
    expect_as_merged(with_adapters(config, AdapterKind::kDora), name);
  expect_as_merged(with_adapters(llama_like(), AdapterKind::kDora, {"value", "up"}), "some");
}

TEST(ModelAdapters, BeginAsTheModelWithoutThem) {
  Decoder plain(llama_like(), Precision::named("fp64")),
      adapted(with_adapters(llama_like(), AdapterKind::kDora), Precision::named("fp64"));
  plain.parameters().initialise(4);
  adapted.parameters().initialise(4);
  EXPECT_NEAR(loss_of(plain), loss_of(adapted), 1e-12);
  const Tensor down = tensors_of(adapted).values.at("layers.0.channel.down.lora_a.weight");
  const double bound = 1 / std::sqrt(static_cast<double>(down.size(1)));
  EXPECT_LE(down.abs().max().item<double>(), bound);
  EXPECT_GT(down.abs().max().item<double>(), 0.7 * bound);
  EXPECT_LT(std::abs(down.mean().item<double>()), 0.3 * bound);
}

TEST(ModelAdapters, RecomputedLayersGiveTheSameBits) {
  for (const AdapterKind kind : {AdapterKind::kLora, AdapterKind::kDora}) {
    const recipe::ModelConfig config =
        with_adapters(kind == AdapterKind::kLora ? hybrid_experts_post_norm() : llama_like(), kind);
    Decoder decoder = filled_decoder(config);
    const double loss = loss_of(decoder);
    const Tensors before = tensors_of(decoder);
    for (const auto recompute : {recipe::Recompute::kSelective, recipe::Recompute::kFull}) {
      EXPECT_EQ(loss, loss_of(decoder, recompute));
      for (const auto& [name, gradient] : tensors_of(decoder).gradients)
        EXPECT_TRUE(gradient.equal(before.gradients.at(name))) << name;
    }
  }
}

// Token by token, where latent attention reads its weights in another way.
TEST(ModelAdapters, DecodeAsTheyPrefill) {
  for (const recipe::ModelConfig& base : {latent_attention(), llama_like(), delta_hybrid()}) {
    Decoder decoder = filled_decoder(with_adapters(base, AdapterKind::kLora));
    const at::NoGradGuard no_gradient;
    LocalOps ops;
    Context context(ops, decoder.precision());
    context.training = false;
    const Tensor ids = id_tensor(random_ids(7, base.vocabulary, 4));
    const Tensor expected = decoder.logits(decoder.hidden(context, ids, layout::make_single(7)));
    DecoderState state = decoder.make_state();
    const int64_t row = state.add();
    for (int64_t t = 0; t < 7; ++t) {
      Context step(ops, decoder.precision());
      step.training = false;
      const DecoderRows rows{state, {row}};
      const Tensor logits = decoder.logits(
          decoder.hidden(step, ids.narrow(0, t, 1),
                         layout::make_packed(std::vector<int64_t>{1}, std::vector<int64_t>{t}), &rows));
      EXPECT_LT((logits[0] - expected[t]).abs().max().item<double>(), 1e-9) << t;
    }
  }
}

}  // namespace
}  // namespace longhaul::model
