// Multi-token prediction beside the plain decoder: what its modules add to the loss, and every gradient, on
// packed documents. ctest: timeout=120
#include <gtest/gtest.h>

#include "model/decoder.h"
#include "support/models.h"
#include "support/plain_decoder.h"

namespace longhaul::model {
namespace {

using namespace longhaul::testing;

recipe::ModelConfig with_modules(recipe::ModelConfig config, int64_t modules) {
  config.predict_ahead = modules;
  config.predict_ahead_weight = 0.7;
  return config;
}

std::vector<NamedConfig> prediction_models() {
  recipe::ModelConfig wide = with_modules(hybrid_pre_norm_tied(), 2);
  wide.mup_base_hidden = 6;  // logits are divided
  return {{"tied_muP", wide},
          {"post_norm_experts", with_modules(hybrid_experts_post_norm(), 2)},
          {"mixture", with_modules(spiking_mixture(), 1)},
          {"parallel_blocks", with_modules(parallel_blocks(), 3)},
          {"shared_bounds", with_modules(hgrn2_hybrid(), 1)}};
}

std::vector<TokensAhead> ahead_of(const layout::SequenceLayout& layout, const std::vector<int64_t>& ids,
                                  const std::vector<int64_t>& labels, int64_t modules) {
  std::vector<TokensAhead> ahead;
  for (int64_t k = 1; k <= modules; ++k) {
    ahead.push_back({id_tensor(layout::ahead_in_documents(layout, ids, k)),
                     id_tensor(layout::ahead_in_documents(layout, labels, k))});
  }
  return ahead;
}

class Predictions : public ::testing::TestWithParam<NamedConfig> {};

TEST_P(Predictions, EqualThePublishedDefinition) {
  const recipe::ModelConfig& config = GetParam().config;
  Decoder decoder = filled_decoder(config);
  // one and two tokens: nothing, or one token, lies ahead
  auto layout = layout::make_packed(std::vector<int64_t>{7, 1, 2, 9});
  layout.row_offsets = {0, 8, 19};
  const std::vector<int64_t> ids = random_ids(layout.tokens(), config.vocabulary, 31);
  std::vector<int64_t> labels = layout::shifted_labels(layout, ids);
  labels[3] = layout::kIgnoreLabel;
  labels[18] = 4;  // a document that goes on beyond its row

  const LogicalTensors leaves = leaves_of(decoder.parameters());
  PlainDecoder plain(config, leaves, layout);
  const PlainDecoder::Result main = plain.run(id_tensor(ids), id_tensor(labels)),
                             more = plain.predictions(id_tensor(ids), id_tensor(labels));
  (main.loss + more.loss + more.auxiliary).backward();

  LocalOps ops;
  Context context(ops, decoder.precision());
  decoder.parameters().zero_gradients();
  const Tensor hidden = decoder.with_predictions(context, decoder.hidden(context, id_tensor(ids), layout),
                                                 ahead_of(layout, ids, labels, config.predict_ahead), layout);
  const Tensor loss = decoder.loss(context, hidden, id_tensor(labels));
  loss.backward();
  double auxiliary = 0, predicted = 0;
  for (const auto& [block, value] : context.auxiliary_losses) {
    (block.starts_with("ahead.") && !block.ends_with("experts") ? predicted : auxiliary) +=
        value.item<double>();
  }
  EXPECT_LT(relative_error(loss, main.loss), 1e-10) << "the loss of the next token is as it was";
  EXPECT_NEAR(predicted, more.loss.item<double>(), 1e-10 * predicted);
  EXPECT_NEAR(auxiliary, more.auxiliary.item<double>(), 1e-10);
  EXPECT_GT(predicted, 1);
  size_t of_modules = 0;
  for (const auto& [name, leaf] : leaves) {
    size_t part = 0;
    const Parameter* holder = decoder.parameters().holder_of(name, &part);
    const Tensor found = holder->part_of(holder->grad, part),
                 wanted = leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf);
    const double scale = std::max(wanted.abs().max().item<double>(), 1e-3);  // of the keys' biases it is 0
    EXPECT_LE((found - wanted).abs().max().item<double>(), 1e-10 * scale) << name;
    of_modules += name.starts_with("ahead.") ? 1 : 0;
  }
  EXPECT_GT(of_modules, static_cast<size_t>(8 * config.predict_ahead));
}

// Documents in one row, or each by itself.
TEST_P(Predictions, NeverLookBeyondADocument) {
  const recipe::ModelConfig& config = GetParam().config;
  Decoder decoder = filled_decoder(config);
  const auto predicted = [&](const layout::SequenceLayout& layout, const std::vector<int64_t>& ids) {
    LocalOps ops;
    Context context(ops, decoder.precision());
    const at::NoGradGuard no_gradient;
    const std::vector<int64_t> labels = layout::shifted_labels(layout, ids);
    decoder.with_predictions(context, decoder.hidden(context, id_tensor(ids), layout),
                             ahead_of(layout, ids, labels, config.predict_ahead), layout);
    double sum = 0;
    for (int64_t k = 0; k < config.predict_ahead; ++k)
      sum += context.auxiliary_losses.at("ahead." + std::to_string(k)).item<double>();
    return sum;
  };
  const std::vector<int64_t> lengths = {6, 3, 8}, ids = random_ids(17, config.vocabulary, 7);
  double apart = 0;
  int64_t begin = 0;
  for (const int64_t length : lengths) {
    apart += predicted(layout::make_single(length), {ids.begin() + begin, ids.begin() + begin + length});
    begin += length;
  }
  EXPECT_NEAR(predicted(layout::make_packed(lengths), ids), apart, 1e-10 * apart);
}

INSTANTIATE_TEST_SUITE_P(Models, Predictions, ::testing::ValuesIn(prediction_models()),
                         [](const auto& named) { return named.param.name; });

}  // namespace
}  // namespace longhaul::model
