// The rows of a state: who has which, and what a new one begins with; HGRN2's, whose forget gates stand at 1.
#include "model/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/models.h"
#include "support/refused.h"

namespace longhaul::model {
namespace {

using namespace longhaul::testing;

class StateRows : public ::testing::Test {
 protected:
  // Lightning, lightning, softmax.
  StateRows() : decoder_(filled_decoder(hybrid_experts_post_norm(), "fp32")), state_(decoder_.make_state()) {}

  void pass(const std::vector<int64_t>& rows, const std::vector<int64_t>& lengths) {
    const at::NoGradGuard no_gradient;
    std::vector<int64_t> firsts;
    int64_t tokens = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      firsts.push_back(state_.tokens(rows[i]));
      tokens += lengths[i];
    }
    LocalOps ops;
    Context context(ops, decoder_.precision());
    context.training = false;
    const DecoderRows continued{state_, rows};
    decoder_.hidden(context, id_tensor(random_ids(tokens, 29, 3)), layout::make_packed(lengths, firsts),
                    &continued);
  }
  Tensor recurrence(int64_t row) const { return state_.layers()[0].tensor("recurrence")[row]; }
  const kernels::KeyValueCache& cache() const { return *state_.layers()[2].pages(); }

  const PoisonFreshMemory poison_;
  Decoder decoder_;
  DecoderState state_;
};

TEST_F(StateRows, HaveTheShapesOfTheMixersEntry) {
  state_.add();
  EXPECT_EQ(recurrence(0).sizes(), at::IntArrayRef({4, 8, 8}));
  EXPECT_EQ(recurrence(0).scalar_type(), at::kFloat);
  EXPECT_EQ(state_.layers()[0].pages(), nullptr);
  EXPECT_EQ(cache().pool().sizes().heads, 2);
  EXPECT_EQ(state_.layers()[2].row_bytes(), 0);
}

TEST_F(StateRows, AreUsedAgainFromTheBeginning) {
  const int64_t a = state_.add(), b = state_.add(), c = state_.add();
  pass({c, a}, {3, 300});
  EXPECT_EQ(state_.tokens(a), 300);
  EXPECT_EQ(state_.tokens(b), 0);
  EXPECT_EQ(state_.tokens(c), 3);
  EXPECT_EQ(cache().pool().in_use(), 3);
  const Tensor kept = recurrence(c).clone();
  state_.drop(a);
  EXPECT_EQ(state_.sequences(), 2);
  EXPECT_EQ(cache().pool().in_use(), 1);
  const int64_t again = state_.add();
  EXPECT_EQ(again, a);
  EXPECT_EQ(state_.tokens(again), 0);
  EXPECT_TRUE(recurrence(again).eq(0).all().item<bool>());
  for (int i = 0; i < 10; ++i) state_.add();  // the tensors grow
  EXPECT_TRUE(recurrence(c).equal(kept));
  EXPECT_EQ(state_.sequences(), 13);
}

TEST_F(StateRows, ForkedGoTheirOwnWay) {
  const int64_t a = state_.add();
  pass({a}, {5});
  const int64_t b = state_.fork(a);
  EXPECT_EQ(state_.tokens(b), 5);
  EXPECT_TRUE(recurrence(b).equal(recurrence(a)));
  EXPECT_EQ(cache().pages(b), cache().pages(a));
  const Tensor before = recurrence(a).clone();
  pass({b}, {1});
  EXPECT_TRUE(recurrence(a).equal(before));
  EXPECT_FALSE(recurrence(b).equal(before));
  EXPECT_NE(cache().pages(b), cache().pages(a));
  EXPECT_EQ(cache().tokens(a), 5);
}

TEST_F(StateRows, ThatAreNobodysAreRefused) {
  const int64_t a = state_.add();
  state_.drop(a);
  EXPECT_ANY_THROW(state_.tokens(a));
  EXPECT_ANY_THROW(state_.drop(a));
  EXPECT_ANY_THROW(state_.fork(a));
  EXPECT_ANY_THROW(state_.tokens(7));
  EXPECT_ANY_THROW(state_.layers()[2].tensor("recurrence"));
  EXPECT_ANY_THROW(state_.layers()[0].keys_values());
}

// HGRN2 whose forget gate stands at 1 keeps what it has, whatever comes, and says what follows from that
// (docs/sources/linear-attention.md §12.8).

class FrozenHgrn2 : public ::testing::TestWithParam<const char*> {
 protected:
  static recipe::ModelConfig config(int64_t layers) {
    recipe::ModelConfig config = small_config();
    config.layers = layers;
    config.mixers = {recipe::Mixer::kHgrn2};
    config.hgrn2.expand = 6;
    config.channel = recipe::Channel::kNone;
    config.bias = true;
    return config;
  }
  explicit FrozenHgrn2(int64_t layers = 1)
      : decoder_(filled_decoder(config(layers), GetParam())),
        state_(decoder_.make_state()),
        row_(state_.add()) {}

  Tensor logits_after(const std::vector<int64_t>& ids) {
    const at::NoGradGuard no_gradient;
    LocalOps ops;
    Context context(ops, decoder_.precision());
    context.training = false;
    const DecoderRows continued{state_, {row_}};
    const std::vector<int64_t> lengths = {static_cast<int64_t>(ids.size())}, firsts = {state_.tokens(row_)};
    return decoder_.logits(
        decoder_.hidden(context, id_tensor(ids), layout::make_packed(lengths, firsts), &continued))[-1];
  }
  Tensor state_of(size_t layer) const { return state_.layers()[layer].tensor("recurrence")[row_].clone(); }
  Tensor weight(const std::string& name) const {
    size_t part = 0;
    const Parameter* holder = decoder_.parameters().holder_of(name, &part);
    return holder->part_of(holder->value.detach(), part);
  }
  void fill(const std::string& name, double value) {
    weight(name).fill_(value);
    for (const auto& parameter : decoder_.parameters().all()) parameter->written();
  }

  Decoder decoder_;
  DecoderState state_;
  int64_t row_;
};

// γ = 0 and f → ∞: λ = 1 and 1 − λ = 0 in every precision.
TEST_P(FrozenHgrn2, KeepsItsStateToTheBit) {
  logits_after(random_ids(9, 29, 1));
  fill("layers.0.mixer.forget.bias", 1e4);
  const Tensor kept = state_of(0);
  EXPECT_GT(kept.abs().min().item<double>(), 0);
  logits_after(random_ids(300, 29, 2));
  EXPECT_TRUE(state_of(0).equal(kept));
  const Tensor once = logits_after({7});
  for (int64_t t = 0; t < 20; ++t) logits_after({t});
  EXPECT_TRUE(state_of(0).equal(kept));
  EXPECT_TRUE(logits_after({7}).equal(once)) << "what a token reads does not depend on what came between";
}

// Nothing is left of the tokens before but S, so o = q S, and the whole model can be written down.
TEST_P(FrozenHgrn2, SaysWhatItsStateHolds) {
  if (GetParam() != std::string("fp64")) GTEST_SKIP() << "a value that is known exactly";
  logits_after(random_ids(9, 29, 1));
  fill("layers.0.mixer.forget.bias", INFINITY);
  const Tensor kept = state_of(0), x = weight("embedding.weight")[11];
  const auto rms = [](const Tensor& of, double eps) { return of / (of.square().mean() + eps).sqrt(); };
  const Tensor h = rms(x, 1e-5) * weight("layers.0.mixer_norm.weight");
  const Tensor z = at::mv(weight("layers.0.mixer.query.weight"), h) + weight("layers.0.mixer.query.bias"),
               q = (z * z.sigmoid()).view({4, 6});
  std::vector<Tensor> heads;
  for (int64_t n = 0; n < 4; ++n) heads.push_back(at::mv(kept[n].t(), q[n]));
  const Tensor y = rms(at::cat(heads), 1e-6) * weight("layers.0.mixer.norm.weight");
  const Tensor out =
      x + at::mv(weight("layers.0.mixer.output.weight"), y) + weight("layers.0.mixer.output.bias");
  const Tensor expected = at::mv(weight("head.weight"), rms(out, 1e-5) * weight("norm.weight"));
  EXPECT_LT(relative_error(logits_after({11}), expected), 1e-13);
}

INSTANTIATE_TEST_SUITE_P(Precisions, FrozenHgrn2, ::testing::Values("fp64", "fp32", "bf16"),
                         [](const auto& named) { return std::string(named.param); });

// A bound that rounding made 1 is held 2⁻²⁴ below, so that its layer can learn to write again
// (model/mixers/hgrn2.cpp): of what a token would write, so much comes in where the gate is shut, and nothing
// where it is open.
class BoundAtOne : public FrozenHgrn2 {
 protected:
  BoundAtOne() : FrozenHgrn2(2) {}
};

TEST_P(BoundAtOne, KeepsItsStateButForOneRounding) {
  logits_after(random_ids(9, 29, 1));
  weight("hgrn2.lower_bounds.weight")[1].fill_(1e3);  // its share of the softmax over layers is 1
  for (const double bias : {-1e4, 1e4}) {
    fill("layers.1.mixer.forget.bias", bias);
    // Values are the bias alone: the state goes towards 0.5.
    fill("layers.1.mixer.value.weight", 0);
    fill("layers.1.mixer.value.bias", 0.5);
    const Tensor kept = state_of(1);
    logits_after(random_ids(64, 29, 3));
    const Tensor moved = (state_of(1) - kept).to(at::kDouble);
    if (bias > 0) {
      EXPECT_TRUE(moved.eq(0).all().item<bool>());
      continue;
    }
    const Tensor expected = -std::expm1(64 * std::log1p(-0x1p-24)) * (0.5 - kept.to(at::kDouble));
    // Where states are fp32, what comes in is about as small as their own rounding.
    const double tolerance = GetParam() == std::string("fp64")
                                 ? 1e-9 * expected.abs().max().item<double>()
                                 : 64 * 0x1p-24 * kept.abs().max().item<double>();
    EXPECT_LT((moved - expected).abs().max().item<double>(), tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, BoundAtOne, ::testing::Values("fp64", "fp32", "bf16"),
                         [](const auto& named) { return std::string(named.param); });

// What cannot have its keys and values in eight bits says so; of a hybrid the softmax layers have.
TEST(KeysValuesInInt8, AreOfSoftmaxLayersOnTheCpu) {
  using ::testing::HasSubstr;
  const auto refusal_of = [](const recipe::ModelConfig& config) {
    const Decoder decoder(config, Precision::named("bf16"), at::kCPU, Use::kInference);
    return refused([&] { decoder.make_state().keep_keys_values_in_int8(); });
  };
  EXPECT_THAT(refusal_of(latent_attention()), HasSubstr("latent attention"));
  EXPECT_THAT(refusal_of(latent_alone()), HasSubstr("latent attention"));
  EXPECT_THAT(refusal_of(mamba2_like()), HasSubstr("keeps no keys and values"));
  EXPECT_EQ(refusal_of(hybrid_pre_norm_tied()), "accepted");
  const Decoder decoder(llama_like(), Precision::named("bf16"), at::kCPU, Use::kInference);
  DecoderState wide = decoder.make_state(), narrow = decoder.make_state();
  narrow.keep_keys_values_in_int8();
  // two layers, two heads of eight channels: two bytes a number, and one with four for each row
  EXPECT_EQ(wide.page_bytes(), 2 * 256 * 2 * (8 + 8) * 2);
  EXPECT_EQ(narrow.page_bytes(), 2 * 256 * 2 * (8 + 8 + 8));
}

}  // namespace
}  // namespace longhaul::model
