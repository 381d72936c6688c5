// What a model holds depends on what it is for: gradients in training only, and of what trains only; logits
// without a copy of the head.
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/arena.h"
#include "model/state.h"
#include "support/models.h"
#include "support/nightly.h"
#include "tensor/cpu_allocator.h"

namespace longhaul::model {
namespace {

using namespace longhaul::testing;

class Memory : public ::testing::TestWithParam<NamedConfig> {
 protected:
  Memory() { install_cpu_allocator(); }
  static int64_t gradient_bytes() { return memory_statistics().of(MemoryPurpose::kGradients).bytes; }
};

struct TrainedUse {
  Tensor hidden_td, loss;
};

TrainedUse backward(Decoder& decoder, const Tensor& ids, const Tensor& labels) {
  LocalOps ops;
  Context context(ops, decoder.precision());
  const Tensor hidden = decoder.hidden(context, ids, layout::make_single(ids.size(0))),
               loss = decoder.loss(context, hidden, labels);
  loss.backward();
  return {hidden.detach(), loss.detach()};
}

TEST_P(Memory, InferenceHoldsNoGradients) {
  const int64_t before = gradient_bytes();
  Decoder decoder(GetParam().config, Precision::named("bf16"), at::kCPU, Use::kInference);
  EXPECT_EQ(gradient_bytes(), before);
  Decoder training(GetParam().config, Precision::named("bf16"));
  EXPECT_GT(gradient_bytes(), before) << "they are counted";
  decoder.parameters().initialise(1);
  training.parameters().initialise(1);
  for (const auto& parameter : decoder.parameters().all()) {
    EXPECT_FALSE(parameter->grad.defined()) << parameter->name;
    EXPECT_FALSE(parameter->value.requires_grad()) << parameter->name;
  }
  decoder.parameters().zero_gradients();  // nothing to do
  // Even where somebody forgot to switch gradients off, there is no graph, and the result is that of a model
  // in training.
  const Tensor ids = id_tensor(random_ids(12, GetParam().config.vocabulary, 3));
  LocalOps ops;
  Context context(ops, decoder.precision());
  const Tensor hidden = decoder.hidden(context, ids, layout::make_single(12));
  EXPECT_FALSE(hidden.requires_grad());
  EXPECT_FALSE(decoder.loss(context, hidden, ids).requires_grad());
  EXPECT_TRUE(hidden.equal(training.hidden(context, ids, layout::make_single(12))));
}

// One parameter at a time is frozen, and all but one (by day in one precision each): what is frozen takes no
// memory, and nobody else's gradient changes.
TEST_P(Memory, FrozenParametersHoldNoGradient) {
  const recipe::ModelConfig& config = GetParam().config;
  const Tensor ids = id_tensor(random_ids(14, config.vocabulary, 3)),
               labels = id_tensor(random_ids(14, config.vocabulary, 4));
  // LibTorch's products and our own
  const std::pair<const char*, double> precisions[] = {{"fp64", 1e-12}, {"fp32", 1e-5}};
  for (const auto& [dtype, tolerance] : precisions) {
    Decoder all = filled_decoder(config, dtype);
    const TrainedUse expected = backward(all, ids, labels);
    const size_t count = all.parameters().all().size();
    for (size_t chosen = 0; chosen < count; ++chosen) {
      for (const bool others : {false, true}) {
        if (others != (dtype == std::string("fp32")) && !takes_all()) continue;
        Decoder decoder = filled_decoder(config, dtype);
        const int64_t before = gradient_bytes();
        const Parameter* const one = decoder.parameters().all()[chosen].get();
        const auto frozen = [&](const Parameter& parameter) { return (&parameter == one) != others; };
        int64_t freed = 0;
        for (const auto& parameter : decoder.parameters().all()) {
          if (!frozen(*parameter)) continue;
          const int64_t steps = (parameter->value.numel() + kArenaStep - 1) / kArenaStep;
          freed += steps * kArenaStep * static_cast<int64_t>(parameter->grad.element_size());
        }
        decoder.parameters().freeze(frozen);
        EXPECT_EQ(before - gradient_bytes(), freed);
        const TrainedUse found = backward(decoder, ids, labels);
        // To rounding: frozen positions (tnl) are computed with by another operator.
        EXPECT_NEAR(found.loss.item<double>(), expected.loss.item<double>(),
                    0.01 * tolerance * expected.loss.item<double>())
            << dtype << " " << one->name << " " << others;
        for (size_t p = 0; p < count; ++p) {
          const Parameter &parameter = *decoder.parameters().all()[p], &whole = *all.parameters().all()[p];
          if (!parameter.trainable()) continue;
          const double scale = std::max(whole.grad.abs().max().item<double>(), 1e-2);
          EXPECT_LE((parameter.grad - whole.grad).abs().max().item<double>(), tolerance * scale)
              << parameter.name << (others ? " alone" : " without " + all.parameters().all()[chosen]->name);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Small, Memory, ::testing::ValuesIn(small_models()),
                         [](const auto& named) { return named.param.name; });

// The head is most of this model. Its packed copy is made once; after that a token costs a row of logits and
// little more.
TEST(DecoderLogits, CopyNoHead) {
  install_cpu_allocator();
  recipe::ModelConfig config = llama_like();
  config.vocabulary = 8192;
  config.hidden = 64;
  Decoder decoder(config, Precision::named("bf16"), at::kCPU, Use::kInference);
  decoder.parameters().initialise(1);
  const Tensor hidden = random_tensor({3, config.hidden}, 2, at::kBFloat16),
               head = decoder.parameters().holder_of("head.weight")->value;
  const auto head_bytes = static_cast<int64_t>(head.nbytes());
  const Tensor logits = decoder.logits(hidden);
  EXPECT_EQ(logits.scalar_type(), at::kFloat);
  EXPECT_LT(relative_error(logits, at::mm(hidden.to(at::kDouble), head.to(at::kDouble).t())), 1e-6)
      << "only the order of sums differs";
  reset_memory_peaks();
  const int64_t before = memory_statistics().total.bytes;
  const Tensor one = decoder.logits(hidden.narrow(0, 1, 1));
  EXPECT_LT(memory_statistics().total.peak - before, head_bytes / 4);
  EXPECT_TRUE(one[0].equal(logits[1]));
}

TEST(ParameterSet, FindsEveryLogicalTensor) {
  Decoder decoder(hybrid_experts_post_norm(), Precision::named("fp32"));
  for (const auto& parameter : decoder.parameters().all()) {
    for (size_t i = 0; i < parameter->parts.size(); ++i) {
      size_t part = 99;
      EXPECT_EQ(decoder.parameters().holder_of(parameter->parts[i].spec.tensor.name, &part), parameter.get());
      EXPECT_EQ(part, i);
    }
  }
  EXPECT_EQ(decoder.parameters().holder_of("layers.9.mixer.query.weight"), nullptr);
  const auto specs = layout::parameters(llama_like());
  ParameterSet set(specs, Precision::named("fp32"), at::kMeta);
  EXPECT_EQ(set.holder_of("norm.weight"), nullptr) << "no module has taken it";
  set.add_stacked("norm.weight", {"norm.weight"});
  EXPECT_THROW(set.add_stacked("norm.weight", {"norm.weight"}), Error);
  EXPECT_THROW(set.add_stacked("x", {"no such tensor"}), Error);
  EXPECT_THROW(set.allocate(), Error);
  EXPECT_THROW(ParameterSet({specs[0], specs[1], specs[0]}, Precision::named("fp32"), at::kMeta), Error)
      << "one name twice";
}

}  // namespace
}  // namespace longhaul::model
