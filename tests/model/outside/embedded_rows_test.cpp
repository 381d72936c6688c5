// Rows from outside in the place of the embedding's, against a decoder in plain fp64 that reads the same rows
// (support/plain_decoder.h): results, the gradients of every tensor, and those of the rows.
#include "model/outside/embedded_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/models.h"
#include "support/plain_decoder.h"

namespace longhaul::model::embedded_rows_test {
namespace {

using namespace longhaul::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Documents of 7, 1, 5 and 6 tokens. A whole document comes from outside, and so do the first and the last
// token of others; the order is none.
layout::SequenceLayout documents() {
  layout::SequenceLayout layout = layout::make_packed(std::vector<int64_t>{7, 1, 5, 6});
  layout.row_offsets = {0, 8, 19};
  return layout;
}
const std::vector<int64_t> kFromOutside = {12, 2, 7, 0, 3, 18};

Tensor rows_of(const recipe::ModelConfig& config, const char* dtype = "fp64") {
  return random_tensor({std::ssize(kFromOutside), config.hidden}, 77).to(Precision::named(dtype).compute);
}

Tensor ids_of(const recipe::ModelConfig& config) {
  const Tensor ids = id_tensor(random_ids(documents().tokens(), config.vocabulary, 31));
  for (const int64_t token : kFromOutside) ids[token] = -1;  // nobody reads them
  return ids;
}

recipe::ModelConfig learned_and_toeplitz() {
  recipe::ModelConfig config = gpt2_like();
  config.toeplitz = 3;
  return config;
}

recipe::ModelConfig predicting_ahead() {
  recipe::ModelConfig config = small_config();
  config.layers = 2;
  config.predict_ahead = 2;
  return config;
}

class EmbeddedRowsForwardPass : public ::testing::TestWithParam<NamedConfig> {};

TEST_P(EmbeddedRowsForwardPass, EqualsThePublishedDefinitions) {
  const recipe::ModelConfig& config = GetParam().config;
  Decoder decoder = filled_decoder(config);
  const layout::SequenceLayout layout = documents();
  const Tensor ids = ids_of(config), labels = id_tensor(random_ids(layout.tokens(), config.vocabulary, 32));
  labels[3] = layout::kIgnoreLabel;

  const LogicalTensors leaves = leaves_of(decoder.parameters());
  const Tensor plain_rows = rows_of(config).requires_grad_(), rows = rows_of(config).requires_grad_();
  PlainDecoder plain(config, leaves, layout);
  for (size_t i = 0; i < kFromOutside.size(); ++i)
    plain.outside[kFromOutside[i]] = plain_rows[static_cast<int64_t>(i)];
  const PlainDecoder::Result expected = plain.run(ids, labels);
  Tensor wanted_loss = expected.loss + expected.auxiliary;
  if (config.predict_ahead > 0) wanted_loss = expected.loss + plain.predictions(ids, labels).loss;
  wanted_loss.backward();

  LocalOps ops;
  Context context(ops, decoder.precision());
  decoder.parameters().zero_gradients();
  const EmbeddedRows embedded{kFromOutside, rows};
  Tensor hidden = decoder.hidden(context, ids, layout, nullptr, &embedded);
  EXPECT_LT(relative_error(decoder.logits(hidden), expected.logits_tv), 1e-10);
  std::vector<TokensAhead> ahead;
  const Tensor looked_up = ids.clamp_min(0);
  const std::vector<int64_t> inputs(looked_up.const_data_ptr<int64_t>(),
                                    looked_up.const_data_ptr<int64_t>() + looked_up.numel()),
      targets(labels.const_data_ptr<int64_t>(), labels.const_data_ptr<int64_t>() + labels.numel());
  for (int64_t k = 1; k <= config.predict_ahead; ++k)
    ahead.push_back({id_tensor(ahead_in_documents(layout, inputs, k)),
                     id_tensor(ahead_in_documents(layout, targets, k)),
                     {},
                     embedded.ahead(layout, k)});
  if (!ahead.empty()) hidden = decoder.with_predictions(context, hidden, ahead, layout);
  const Tensor loss = decoder.loss(context, hidden, labels);
  loss.backward();

  EXPECT_LT(relative_error(loss, expected.loss), 1e-10);
  EXPECT_LT(relative_error(rows.grad(), plain_rows.grad()), 1e-10);
  EXPECT_GT(plain_rows.grad().abs().amax(1).min().item<double>(), 1e-6) << "every row has a gradient";
  for (const auto& [name, leaf] : leaves) {
    size_t part = 0;
    const Parameter* holder = decoder.parameters().holder_of(name, &part);
    const Tensor found = holder->part_of(holder->grad, part),
                 wanted = leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf);
    const double scale = std::max(wanted.abs().max().item<double>(), 1e-3);
    EXPECT_LE((found - wanted).abs().max().item<double>(), 1e-10 * scale) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EmbeddedRowsForwardPass,
                         ::testing::Values(NamedConfig{"llama", llama_like()},
                                           NamedConfig{"learned_positions_tied", gpt2_like()},
                                           NamedConfig{"learned_and_toeplitz", learned_and_toeplitz()},
                                           NamedConfig{"experts_post_norm", hybrid_experts_post_norm()},
                                           NamedConfig{"predicting_ahead", predicting_ahead()}),
                         [](const auto& named) { return named.param.name; });

TEST(EmbeddedRows, GradientsAreDifferencesOfTheLoss) {
  const recipe::ModelConfig config = learned_and_toeplitz();
  Decoder decoder = filled_decoder(config);
  const Tensor ids = ids_of(config),
               labels = id_tensor(random_ids(documents().tokens(), config.vocabulary, 32));
  check_gradients(
      [&](const std::vector<Tensor>& in) {
        LocalOps ops;
        Context context(ops, decoder.precision());
        const EmbeddedRows embedded{kFromOutside, in[0]};
        return decoder.loss(context, decoder.hidden(context, ids, documents(), nullptr, &embedded), labels);
      },
      {rows_of(config)});
}

// Id 0, which stands in for the ids that nobody reads, is the id of no token here.
TEST(EmbeddedRows, TheTableHasNoGradientFromTheirTokens) {
  const recipe::ModelConfig config = llama_like();
  Decoder decoder = filled_decoder(config);
  const Tensor ids = at::arange(1, documents().tokens() + 1, at::kLong);
  LocalOps ops;
  Context context(ops, decoder.precision());
  decoder.parameters().zero_gradients();
  const EmbeddedRows embedded{kFromOutside, rows_of(config)};
  decoder.loss(context, decoder.hidden(context, ids, documents(), nullptr, &embedded), ids.sub(1)).backward();
  const Tensor of_rows = decoder.parameters().holder_of("embedding.weight")->grad.abs().amax(1);
  for (int64_t id = 0; id < config.vocabulary; ++id) {
    const bool read =
        id > 0 && id <= documents().tokens() && std::ranges::find(kFromOutside, id - 1) == kFromOutside.end();
    EXPECT_EQ(of_rows[id].item<double>() > 0, read) << "id " << id;
  }
}

// Bit for bit, in bf16 too: the rows themselves, and what the table has for the other tokens; learned
// positions are added in fp32 and rounded once.
TEST(EmbeddedRows, StandWhereTheTablesRowsStood) {
  for (const recipe::ModelConfig& config : {llama_like(), gpt2_like()}) {
    Decoder decoder = filled_decoder(config, "bf16");
    const at::NoGradGuard no_gradient;
    const layout::SequenceLayout layout = documents();
    LocalOps ops;
    Context context(ops, decoder.precision());
    const Tensor rows = rows_of(config, "bf16"), ids = ids_of(config);
    const EmbeddedRows embedded{kFromOutside, rows};
    const Tensor found = decoder.embed(context, ids, layout, nullptr, &embedded);
    Tensor expected = decoder.embed(context, ids.clamp_min(0), layout).clone();
    for (size_t i = 0; i < kFromOutside.size(); ++i) {
      Tensor row = rows[static_cast<int64_t>(i)];
      if (config.position == recipe::Position::kLearned) {
        const int64_t position = layout.positions[static_cast<size_t>(kFromOutside[i])];
        row = (row.to(at::kFloat) +
               decoder.parameters().holder_of("position.weight")->value[position].to(at::kFloat))
                  .to(at::kBFloat16);
      }
      expected[kFromOutside[i]].copy_(row);
    }
    EXPECT_TRUE(found.equal(expected)) << config.family;
  }
}

TEST(EmbeddedRows, NoneChangeNothing) {
  const recipe::ModelConfig config = hybrid_experts_post_norm();
  Decoder decoder = filled_decoder(config);
  const at::NoGradGuard no_gradient;
  LocalOps ops;
  Context context(ops, decoder.precision());
  const Tensor ids = id_tensor(random_ids(documents().tokens(), config.vocabulary, 31));
  const EmbeddedRows none, empty{{}, at::empty({0, config.hidden}, at::kDouble)};
  const Tensor expected = decoder.hidden(context, ids, documents());
  EXPECT_TRUE(decoder.hidden(context, ids, documents(), nullptr, &none).equal(expected));
  EXPECT_TRUE(decoder.hidden(context, ids, documents(), nullptr, &empty).equal(expected));
}

// A tensor may be one of several views, and its layers may be made again in the backward pass.
TEST(EmbeddedRows, RecomputationChangesNoBit) {
  const recipe::ModelConfig config = hybrid_experts_post_norm();
  const auto gradient = [&](recipe::Recompute recompute) {
    Decoder decoder = filled_decoder(config);
    decoder.set_recompute(recompute);
    LocalOps ops;
    Context context(ops, decoder.precision());
    const Tensor rows = rows_of(config).requires_grad_();
    const EmbeddedRows embedded{kFromOutside, rows};
    decoder
        .loss(context, decoder.hidden(context, ids_of(config), documents(), nullptr, &embedded),
              id_tensor(random_ids(documents().tokens(), config.vocabulary, 32)))
        .backward();
    return rows.grad();
  };
  const Tensor expected = gradient(recipe::Recompute::kNone);
  for (const auto each :
       {recipe::Recompute::kSelective, recipe::Recompute::kTokens, recipe::Recompute::kFull})
    EXPECT_TRUE(gradient(each).equal(expected));
}

// The reader of token t + places is t, in the same document only.
TEST(EmbeddedRows, AheadTheyBelongToEarlierTokensOfTheirDocuments) {
  const Tensor rows = at::arange(6, at::kDouble).unsqueeze(1);
  const EmbeddedRows one = EmbeddedRows{kFromOutside, rows}.ahead(documents(), 1);
  EXPECT_THAT(one.tokens, ElementsAre(11, 1, 2, 17));
  EXPECT_TRUE(one.rows_nd.equal(rows.index_select(0, id_tensor({0, 1, 4, 5}))));
  EXPECT_THAT(EmbeddedRows(kFromOutside, rows).ahead(documents(), 3).tokens, ElementsAre(9, 0, 15));
}

std::string refused(const std::vector<int64_t>& tokens, const Tensor& rows) {
  const recipe::ModelConfig config = llama_like();
  Decoder decoder = filled_decoder(config);
  LocalOps ops;
  Context context(ops, decoder.precision());
  const EmbeddedRows embedded{tokens, rows};
  try {
    decoder.embed(context, at::zeros({19}, at::kLong), documents(), nullptr, &embedded);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.fields().what + ": " + error.fields().expected + " expected, " + error.fields().found +
           " found";
  }
  return "accepted";
}

TEST(EmbeddedRows, WhatDoesNotFitIsRefused) {
  const int64_t hidden = llama_like().hidden;
  const auto rows = [&](int64_t count) { return at::zeros({count, hidden}, at::kDouble); };
  EXPECT_EQ(refused({18, 0}, rows(2)), "accepted");
  EXPECT_THAT(refused({3, 19}, rows(2)), HasSubstr("tokens 0 to 18 expected, token 19 found"));
  EXPECT_THAT(refused({-1}, rows(1)), HasSubstr("token -1"));
  EXPECT_THAT(refused({3, 4, 3}, rows(3)), HasSubstr("a token has two rows from outside"));
  EXPECT_THAT(refused({3, 4, 3}, rows(3)), HasSubstr("token 3 twice"));
  EXPECT_THAT(refused({3, 4}, rows(3)), HasSubstr("[2, 16] fp64 on cpu expected, [3, 16] fp64 on cpu found"));
  EXPECT_THAT(refused({3}, at::zeros({1, hidden + 1}, at::kDouble)), HasSubstr("[1, 17] fp64"));
  EXPECT_THAT(refused({3}, rows(1).to(at::kFloat)), HasSubstr("[1, 16] fp32"));
  EXPECT_THAT(refused({3}, rows(1)[0]), HasSubstr("[16] fp64"));
  EXPECT_THAT(refused({3}, {}), HasSubstr("nothing found"));
}

TEST(BesideTheDecoder, TensorsStandFirstInItsListOnTheFirstStage) {
  layout::ParameterSpec spec;
  spec.tensor = {"tower.weight", {4, 3}, layout::Role::kChannelUp};
  spec.init = {.kind = layout::Init::Kind::kOnes};
  const Beside beside{{spec}, [](ParameterSet& set) { set.add_stacked("tower.weight", {"tower.weight"}); }};
  const recipe::ModelConfig config = llama_like();
  Decoder whole(config, Precision::named("fp64"), at::kCPU, Use::kTraining, {}, beside);
  whole.parameters().initialise(1);
  ASSERT_EQ(whole.parameters().specs().size(), layout::parameters(config).size() + 1);
  EXPECT_EQ(whole.parameters().specs()[0].tensor.name, "tower.weight");
  EXPECT_TRUE(whole.parameters().holder_of("tower.weight")->value.equal(at::ones({4, 3}, at::kDouble)));
  for (int64_t rank = 0; rank < 2; ++rank) {
    const layout::MeshRank place{.mesh = {2, {.pp = 2}}, .rank = rank};
    Decoder stage(config, Precision::named("fp64"), at::kCPU, Use::kTraining, place, beside);
    EXPECT_EQ(stage.parameters().knows("tower.weight"), place.coordinate(layout::Axis::kPp) == 0);
  }
}

}  // namespace
}  // namespace longhaul::model::embedded_rows_test
