// What the plan says that decoding keeps of a sequence, beside what is there.
#include <gtest/gtest.h>

#include "generate/generate.h"
#include "model/state.h"
#include "plan/memory/memory.h"
#include "support/models.h"

namespace longhaul::train {
namespace {

using namespace longhaul::testing;

class StateOfDecoding : public ::testing::TestWithParam<NamedConfig> {};

TEST_P(StateOfDecoding, IsAsLargeAsPlanned) {
  recipe::ModelConfig config = GetParam().config;
  constexpr int64_t kTokens = kernels::PagePool::kTokens;
  if (config.max_positions > 0) config.max_positions = kTokens;
  const std::pair<const char*, recipe::Dtype> precisions[] = {
      {"fp64", recipe::Dtype::kFp64}, {"fp32", recipe::Dtype::kFp32}, {"bf16", recipe::Dtype::kBf16}};
  for (const auto& [dtype, named] : precisions) {
    model::Decoder decoder = filled_decoder(config, dtype);
    model::DecoderState state = decoder.make_state();
    const generate::Continuation continuation{state.add(), random_ids(kTokens, config.vocabulary, 8)};
    generate::advance(decoder, std::span(&continuation, 1), state);
    int64_t recurrence = 0, cache = 0;
    for (const model::MixerState& layer : state.layers()) {
      recurrence += layer.row_bytes();
      if (layer.pages() != nullptr) cache += layer.pages()->pool().bytes();
    }
    const plan::DecodingState planned = plan::decoding_state(config, named);
    EXPECT_EQ(planned.bytes, static_cast<double>(recurrence)) << dtype;
    EXPECT_EQ(planned.bytes_per_token * kTokens, static_cast<double>(cache)) << dtype;
  }
}

INSTANTIATE_TEST_SUITE_P(Small, StateOfDecoding, ::testing::ValuesIn(small_models()),
                         [](const auto& named) { return named.param.name; });

}  // namespace
}  // namespace longhaul::train
