// Models with the weights of experts in eight bits: exactly the model of the numbers that these stand for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/int8_experts.h"
#include "tensor/cpu_allocator.h"

namespace longhaul::model {
namespace {

using namespace longhaul::testing;

std::vector<NamedConfig> models_with_experts() {
  std::vector<NamedConfig> all = small_models();
  std::erase_if(all, [](const NamedConfig& each) { return each.config.experts == 0; });
  recipe::ModelConfig fused = hybrid_experts_post_norm();  // the others are too narrow for a panel
  fused.intermediate = 48;
  all.push_back({"wide_enough_for_panels", fused});
  return all;
}

class Int8Experts : public ::testing::TestWithParam<NamedConfig> {};

Tensor logits_of(Decoder& decoder, int64_t tokens = 40) {
  const at::NoGradGuard guard;
  LocalOps ops;
  Context context(ops, decoder.precision());
  context.training = false;
  const Tensor ids = id_tensor(random_ids(tokens, decoder.config().vocabulary, 3));
  return decoder.logits(decoder.hidden(context, ids, layout::make_single(tokens)));
}

int64_t tokens_of(const recipe::ModelConfig& config) {
  return config.max_positions > 0 ? std::min<int64_t>(config.max_positions, 40) : 40;
}

TEST_P(Int8Experts, AreTheModelOfTheNumbersThatTheyStandFor) {
  const PoisonFreshMemory poison;
  const int64_t tokens = tokens_of(GetParam().config);
  for (const auto& [dtype, tolerance] : {std::pair{"fp64", 1e-12}, {"fp32", 2e-5}}) {
    SCOPED_TRACE(dtype);
    Decoder wide = filled_decoder(GetParam().config, dtype);
    Decoder narrow = int8_copy_of(wide);
    const Tensor before = logits_of(wide, tokens), found = logits_of(narrow, tokens);
    round_experts_to_int8(wide);
    EXPECT_LT(relative_error(found, logits_of(wide, tokens)), tolerance);
    EXPECT_GT(relative_error(found, before), 1e-4) << "they are rounded";
    EXPECT_LT(relative_error(found, before), 0.1) << "and not by much";
  }
}

TEST_P(Int8Experts, TakeAByteAWeight) {
  install_cpu_allocator();
  const auto bytes = [] { return memory_statistics().of(MemoryPurpose::kParameters).bytes; };
  const int64_t start = bytes();
  const Decoder wide(GetParam().config, Precision::named("fp32"), at::kCPU, Use::kInference);
  const int64_t of_wide = bytes() - start;
  const Decoder narrow(GetParam().config, Precision::named("fp32"), at::kCPU, Use::kInt8Experts);
  const int64_t of_narrow = bytes() - start - of_wide;
  int64_t fewer = 0;
  for (const auto& parameter : narrow.parameters().all()) {
    if (!parameter->int8) continue;
    EXPECT_FALSE(parameter->value.defined() || parameter->own_value.defined()) << "nothing wide beside it";
    fewer += layout::volume(parameter->sizes) * 4 - parameter->int8->bytes();
  }
  EXPECT_NEAR(static_cast<double>(of_wide - of_narrow), static_cast<double>(fewer),
              64.0 * 4 * static_cast<double>(narrow.parameters().all().size()))
      << "but for what rounds up each parameter in an arena";
}

INSTANTIATE_TEST_SUITE_P(Small, Int8Experts, ::testing::ValuesIn(models_with_experts()),
                         [](const ::testing::TestParamInfo<NamedConfig>& each) { return each.param.name; });

TEST(Int8ExpertsAlone, BeginAsTheWideOnesDo) {
  Decoder wide(hybrid_experts_post_norm(), Precision::named("fp32"), at::kCPU, Use::kInference);
  Decoder narrow(hybrid_experts_post_norm(), Precision::named("fp32"), at::kCPU, Use::kInt8Experts);
  wide.parameters().initialise(9);
  narrow.parameters().initialise(9);
  round_experts_to_int8(wide);
  EXPECT_LT(relative_error(logits_of(narrow), logits_of(wide)), 2e-5);
}

TEST(Int8ExpertsAlone, DoNotTrain) {
  Decoder decoder(hybrid_experts_post_norm(), Precision::named("fp32"), at::kCPU, Use::kInt8Experts);
  decoder.parameters().initialise(9);
  LocalOps ops;
  Context context(ops, decoder.precision());
  const Tensor hidden = random_tensor({6, decoder.config().hidden}, 1, at::kFloat).requires_grad_(true);
  try {
    decoder.layers(context, hidden, layout::make_single(6));
    ADD_FAILURE() << "a gradient through experts in eight bits";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("do not train"));
  }
  for (const auto& parameter : decoder.parameters().all()) {
    EXPECT_FALSE(parameter->trainable());
    if (parameter->int8) {
      EXPECT_THROW(parameter->use(), Error);
    }
  }
}

}  // namespace
}  // namespace longhaul::model
