// A model with experts that begins as a dense one: its logits at the start, whatever the experts are of the
// dense channel mixer, where each tensor comes from, and what does not fit.
#include "checkpoint/published/upcycling.h"

#include "checkpoint/published/naming.h"
#include "checkpoint/starting_point.h"
#include "published_for_tests.h"

namespace longhaul::checkpoint {
namespace {

class UpcyclingTest : public PublishedTest {
 protected:
  UpcyclingTest() {
    import_model(kGolden / "llama" / "model", folder_.path() / "dense");
    from_ = StartingPoint::open(folder_.path() / "dense");
  }

  // The dense model with these options over its own.
  recipe::LoadedRecipe recipe_with(const std::vector<std::string>& words) const {
    std::vector<std::string> all = {"model.family=longhaul", "train.sequence=32",
                                    "data.tokenizer=tokenizer.json"};
    all.insert(all.end(), words.begin(), words.end());
    const recipe::FirstWords first = from_->first_words();
    std::ofstream(folder_.path() / "experts.toml") << "version = 1\n";
    return recipe::load(folder_.path() / "experts.toml", all, &first);
  }

  static StateEntry entry_of(const layout::ParameterSpec& spec, const layout::Rectangle& held,
                             const Tensor& view) {
    return {.name = spec.tensor.name,
            .file = "model",
            .role = kWeightRole,
            .shape = spec.tensor.global_shape,
            .held = held,
            .view = view};
  }

  std::unique_ptr<model::Decoder> begun(const recipe::LoadedRecipe& recipe) const {
    auto decoder = std::make_unique<model::Decoder>(recipe.recipe.model, Precision::named("fp32"));
    decoder->parameters().initialise(static_cast<uint64_t>(recipe.recipe.train.seed));
    std::vector<StateEntry> entries;
    for (const auto& parameter : decoder->parameters().all()) {
      for (size_t i = 0; i < parameter->parts.size(); ++i) {
        const model::Part& part = parameter->parts[i];
        entries.push_back(entry_of(part.spec, part.held, parameter->part_of(parameter->value.detach(), i)));
      }
    }
    from_->require_fitting(recipe);
    from_->read(entries, recipe);
    for (const auto& parameter : decoder->parameters().all()) parameter->written();
    return decoder;
  }

  Tensor ids() const { return read_tensor(kGolden / "llama" / "expected.safetensors", "ids"); }
  Tensor dense_logits() const { return read_tensor(kGolden / "llama" / "expected.safetensors", "logits"); }
  std::string refused_with(const std::vector<std::string>& words) const {
    const recipe::LoadedRecipe recipe = recipe_with(words);
    return refused([&] { from_->require_fitting(recipe); });
  }
  std::string sliced(int64_t slices) const {
    return fmt::format("model.intermediate={}", from_->model().intermediate / slices);
  }

  std::shared_ptr<const StartingPoint> from_;
};

// Those of `transformers` for the dense model.
TEST_F(UpcyclingTest, LogitsAreTheDenseModels) {
  const Tensor expected = dense_logits();
  ASSERT_GT(expected.std().item<double>(), 0.1);
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"model.experts=4"},
           {"model.experts=3"},
           {"model.experts=4", "model.router_score=sigmoid", "model.router_scale=2.5",
            "model.router_bias_rate=0.001"},
           {"model.experts=8", sliced(2)},
           {"model.experts=8", "model.experts_per_token=4", sliced(4), "model.router_scale=4"},
           {"model.experts=8", "model.experts_per_token=4", sliced(2), "model.router_score=sigmoid",
            "model.router_groups=2", "model.router_groups_per_token=2"},
           {"model.experts=4", sliced(2), "model.dense_layers=[0]",
            fmt::format("model.dense_intermediate={}", from_->model().intermediate)},
           {"model.experts=4", "model.shared_experts=1"},
           {"model.experts=4", "model.shared_experts=3", "model.router_scale=2"},
           {"model.experts=4", sliced(2), "model.router_choice=sinkhorn", "model.auxiliary_loss=0",
            "model.predict_ahead=1"}}) {
    const Tensor found = logits_of(*begun(recipe_with(words)), ids());
    EXPECT_LT((found - expected).abs().max().item<double>(), 1e-5 * expected.abs().max().item<double>())
        << fmt::format("{}", fmt::join(words, " "));
  }
}

// SpikingBrain's 16 experts, of which a token takes one, with a shared one: scores are not normalised, and
// each matrix is multiplied by (1 + 1/16)^(−1/3) = 0.98.
TEST_F(UpcyclingTest, ScoresThatAreNotNormalisedGiveNearlyTheDenseOutput) {
  const std::vector<std::string> words = {"model.experts=16", "model.experts_per_token=1",
                                          "model.shared_experts=1", "model.router_normalised=false"};
  const recipe::LoadedRecipe recipe = recipe_with(words);
  EXPECT_THAT(from_->require_fitting(recipe),
              AllOf(HasSubstr("multiplied by 0.98,"), HasSubstr("1 shared copy")));
  const Tensor expected = dense_logits(), found = logits_of(*begun(recipe), ids());
  const double drift = (found - expected).norm().item<double>() / expected.norm().item<double>();
  EXPECT_LT(drift, 0.03);
  EXPECT_GT(drift, 1e-5) << "the copies are multiplied, which SiLU does not undo exactly";
}

// In training too, where nothing is dropped: with jitter, and with a choice that is balanced.
TEST_F(UpcyclingTest, WhicheverCopiesAreChosen) {
  const Tensor expected = dense_logits();
  const recipe::LoadedRecipe recipe =
      recipe_with({"model.experts=8", "model.experts_per_token=4", sliced(2), "model.router_choice=sinkhorn",
                   "model.auxiliary_loss=0", "model.router_jitter=0.3"});
  const auto decoder = begun(recipe);
  const at::NoGradGuard no_gradient;
  model::LocalOps ops;
  model::Context context(ops, decoder->precision());
  const Tensor found = decoder->logits(decoder->hidden(context, ids(), layout::make_single(ids().size(0))));
  EXPECT_LT((found - expected).abs().max().item<double>(), 1e-5 * expected.abs().max().item<double>());
}

// Box by box as ranks hold them: slices of the dense matrices, down times G / scale, one row for the slices
// of a copy.
TEST_F(UpcyclingTest, EveryBoxIsThatOfTheWhole) {
  const recipe::LoadedRecipe recipe = recipe_with({"model.experts=4", sliced(2), "model.router_scale=0.5"});
  const int64_t width = from_->model().intermediate / 2;
  recipe::LoadedRecipe dense;
  dense.recipe.model = from_->model();
  const auto read = [&](const recipe::LoadedRecipe& as, const std::string& name, layout::Rectangle held) {
    StateEntry entry{.name = name,
                     .file = "model",
                     .role = kWeightRole,
                     .shape = {},
                     .held = held,
                     .view = at::full(held.length, NAN)};
    from_->read({entry}, as);
    return entry.view;
  };
  const int64_t hidden = from_->model().hidden;
  const Tensor gate =
      read(dense, "layers.1.channel.gate.weight", {.offset = {0, 0}, .length = {2 * width, hidden}});
  const Tensor down =
      read(dense, "layers.1.channel.down.weight", {.offset = {0, 0}, .length = {hidden, 2 * width}});
  for (int64_t e = 0; e < 4; ++e) {
    const std::string name = fmt::format("layers.1.experts.{}.", e);
    const Tensor own_gate = read(recipe, name + "gate.weight", {.offset = {1, 2}, .length = {width - 3, 5}});
    EXPECT_TRUE(own_gate.equal(gate.narrow(0, e % 2 * width + 1, width - 3).narrow(1, 2, 5))) << e;
    const Tensor own_down = read(recipe, name + "down.weight", {.offset = {3, 1}, .length = {4, width - 1}});
    EXPECT_TRUE(own_down.equal(down.narrow(0, 3, 4).narrow(1, e % 2 * width + 1, width - 1).mul(2 / 0.5)))
        << e;
  }
  const Tensor router = read(recipe, "layers.1.router.weight", {.offset = {0, 0}, .length = {4, hidden}});
  EXPECT_TRUE(router[0].equal(router[1]) && router[2].equal(router[3]));
  EXPECT_FALSE(router[1].equal(router[2]));
  const double std = from_->model().initial_std;
  EXPECT_NEAR(router.std().item<double>(), std, 0.3 * std) << "drawn as a fresh one";
  EXPECT_TRUE(read(recipe, "layers.1.router.weight", {.offset = {1, 3}, .length = {2, 4}})
                  .equal(router.narrow(0, 1, 2).narrow(1, 3, 4)));
  EXPECT_THAT(from_->require_fitting(recipe),
              AllOf(HasSubstr("4 experts, 2 copies"), HasSubstr("2 slices"), HasSubstr("multiplied by 4")));
}

TEST_F(UpcyclingTest, WhatDoesNotFitIsRefused) {
  using ::testing::AllOf;
  const int64_t width = from_->model().intermediate;
  EXPECT_THAT(refused_with({"model.experts=4", fmt::format("model.intermediate={}", width - 1)}),
              AllOf(HasSubstr(fmt::format("model.intermediate = {}", width)),
                    HasSubstr(fmt::format("{} (command line)", width - 1))));
  EXPECT_THAT(refused_with({"model.experts=4", fmt::format("model.intermediate={}", 2 * width)}),
              HasSubstr("or a divisor of it"));
  EXPECT_THAT(refused_with({"model.experts=5", sliced(2)}),
              AllOf(HasSubstr("model.experts = a multiple of 2"), HasSubstr("model.experts=6")));
  EXPECT_THAT(
      refused_with({"model.experts=4", "model.experts_per_token=3", sliced(2)}),
      AllOf(HasSubstr("model.experts_per_token = a multiple of 2"), HasSubstr("model.experts_per_token=4")));
  EXPECT_THAT(refused_with({"model.experts=8", "model.experts_per_token=2", "model.router_groups=4",
                            "model.router_groups_per_token=2", sliced(2)}),
              HasSubstr("slices of one copy stay together"));
  EXPECT_THAT(
      refused_with({"model.experts=4", "model.router_normalised=false", "model.router_score=sigmoid"}),
      HasSubstr("model.router_normalised=true"));
  EXPECT_THAT(refused_with({"model.experts=4", "model.shared_experts=1", sliced(2)}),
              AllOf(HasSubstr("whole copies"), HasSubstr(fmt::format("model.intermediate={}", width))));
  EXPECT_THAT(refused_with({"model.experts=4", "model.shared_experts=1", "model.shared_gate=true"}),
              HasSubstr("model.shared_gate=false"));
  EXPECT_THAT(refused_with({"model.experts=4", "model.shared_experts=1",
                            fmt::format("model.shared_intermediate={}", width + 1)}),
              HasSubstr(fmt::format("model.shared_intermediate={}", width)));
  EXPECT_THAT(refused_with({"model.experts=4", "model.dense_layers=[1]", sliced(2)}),
              HasSubstr(fmt::format("model.dense_intermediate={}", width)));
  EXPECT_THAT(refused_with({"model.experts=4", "model.layers=1"}),
              AllOf(HasSubstr("model.layers = "), HasSubstr("1 here")));
}

}  // namespace
}  // namespace longhaul::checkpoint
