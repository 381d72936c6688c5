// What the plan says that decoding keeps of a sequence, beside what is there.
#include <gtest/gtest.h>

#include "generate/generate.h"
#include "model/state.h"
#include "plan/memory.h"
#include "support/models.h"

namespace longhaul::train {
namespace {

using namespace longhaul::testing;

class StateOfDecoding : public ::testing::TestWithParam<NamedConfig> {};

TEST_P(StateOfDecoding, IsAsLargeAsPlanned) {
  recipe::ModelConfig config = GetParam().config;
  constexpr int64_t kTokens = kernels::KeyValueCache::kPageTokens;
  if (config.max_positions > 0) config.max_positions = kTokens;
  const std::pair<const char*, recipe::Dtype> precisions[] = {
      {"fp64", recipe::Dtype::kFp64}, {"fp32", recipe::Dtype::kFp32}, {"bf16", recipe::Dtype::kBf16}};
  for (const auto& [dtype, named] : precisions) {
    model::Decoder decoder = filled_decoder(config, dtype);
    model::DecoderState state;
    generate::advance(decoder, random_ids(kTokens, config.vocabulary, 8), state);
    int64_t recurrence = 0, cache = 0;
    for (const model::MixerState& layer : state.layers) {
      if (layer.recurrence_1hkv.defined()) recurrence += static_cast<int64_t>(layer.recurrence_1hkv.nbytes());
      cache += layer.keys_values.bytes();
    }
    const plan::DecodingState planned = plan::decoding_state(config, named);
    EXPECT_EQ(planned.bytes, static_cast<double>(recurrence)) << dtype;
    EXPECT_EQ(planned.bytes_per_token * kTokens, static_cast<double>(cache)) << dtype;
  }
}

INSTANTIATE_TEST_SUITE_P(Small, StateOfDecoding, ::testing::ValuesIn(small_models()), [](const auto& named) { return named.param.name; });

}  // namespace
}  // namespace longhaul::train
