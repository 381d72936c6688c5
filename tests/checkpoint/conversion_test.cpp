// A softmax transformer whose layers become others: what the list of layers says, which weights the new model
// begins with (box by box, as ranks hold them), what stays exactly as it was, and what is refused.
#include "checkpoint/published/conversion_weights.h"

#include "checkpoint/published/naming.h"
#include "checkpoint/starting_point.h"
#include "published_for_tests.h"
#include "recipe/architecture/conversion.h"

namespace longhaul::checkpoint {
namespace {

using recipe::Mixer;
using ::testing::AllOf;
using ::testing::ElementsAre;

TEST(ReadConversion, ListsOfLayers) {
  const recipe::Conversion two = recipe::read_conversion("window*1, gla*2,softmax");
  EXPECT_THAT(two.mixers, ElementsAre(Mixer::kSoftmax, Mixer::kGla, Mixer::kGla, Mixer::kSoftmax));
  EXPECT_THAT(two.windows, ElementsAre(4096, 0, 0, 0));
  EXPECT_THAT(recipe::read_conversion("window:128*2").windows, ElementsAre(128, 128));
  EXPECT_THAT(recipe::read_conversion("hgrn2,gated_deltanet,lightning,mixture").mixers,
              ElementsAre(Mixer::kHgrn2, Mixer::kGatedDeltaNet, Mixer::kLightning, Mixer::kMixture));
  const TemporaryFolder folder;
  std::ofstream(folder / "rules.toml") << "layers = \"gla*1,window:7*1\"\n";
  EXPECT_THAT(recipe::read_conversion((folder / "rules.toml").string()).windows, ElementsAre(0, 7));
}

TEST(ReadConversion, WhatIsNotUnderstoodIsRefused) {
  for (const char* text : {"", "glaa", "gla*0", "gla*x", "gla*", "window:0", "window:-3", "window:", "gla:4",
                           "gla,,gla", "gla*99999"})
    EXPECT_THAT(refused([&] { recipe::read_conversion(text); }), HasSubstr("--convert")) << text;
  const TemporaryFolder folder;
  std::ofstream(folder / "a.toml") << "window = 3\n";
  EXPECT_THAT(refused([&] { recipe::read_conversion((folder / "a.toml").string()); }),
              AllOf(HasSubstr("window"), HasSubstr("a.toml:1:")));
  std::ofstream(folder / "b.toml") << "version = 1\n";
  EXPECT_THAT(refused([&] { recipe::read_conversion((folder / "b.toml").string()); }),
              HasSubstr("names no layers"));
}

TEST(ReadConversion, OnlySoftmaxTransformersAndListsThatFit) {
  recipe::ModelConfig dense;
  dense.layers = 6;
  const auto refusal = [&](const char* rules) {
    return refused([&] { recipe::converted(dense, recipe::read_conversion(rules)); });
  };
  EXPECT_THAT(refusal("gla*4"), AllOf(HasSubstr("divides the model's 6 layers"), HasSubstr("4 layers")));
  EXPECT_EQ(recipe::converted(dense, recipe::read_conversion("gla*2,softmax")).mixers.size(), 3u);
  EXPECT_THAT(refusal("gla,mixture"), HasSubstr("both read the options [model.gla]"));
  dense.causal = false;
  EXPECT_THAT(refusal("gla"), HasSubstr("a causal model"));
  dense.causal = true;
  dense.mixers = {Mixer::kSoftmax, Mixer::kLightning};
  EXPECT_THAT(refusal("gla"), HasSubstr("layers of lightning"));
}

// A window that was there stays where the layer stays as it is.
TEST(ReadConversion, WindowsOfLayersThatStay) {
  recipe::ModelConfig dense;
  dense.layers = 4;
  dense.softmax.windows = {16, 0};
  EXPECT_THAT(recipe::converted(dense, recipe::read_conversion("softmax,softmax")).softmax.windows,
              ElementsAre(16, 0, 16, 0));
  EXPECT_THAT(recipe::converted(dense, recipe::read_conversion("gla,window:8")).softmax.windows,
              ElementsAre(16, 8, 16, 8));
}

class ConversionTest : public PublishedTest {
 protected:
  ConversionTest() {
    for (const char* family : {"llama", "qwen2"})
      import_model(kGolden / family / "model", folder_.path() / family);
  }

  std::shared_ptr<const StartingPoint> from(const std::string& family, const std::string& rules) const {
    return StartingPoint::open(folder_.path() / family, rules);
  }
  recipe::LoadedRecipe recipe_of(const StartingPoint& point, std::vector<std::string> words = {}) const {
    words.insert(words.end(), {"train.sequence=32", "data.tokenizer=tokenizer.json"});
    const recipe::FirstWords first = point.first_words();
    std::ofstream(folder_.path() / "converted.toml") << "version = 1\n";
    return recipe::load(folder_.path() / "converted.toml", words, &first);
  }

  // The new model's parameters as drawn, then those that are copied.
  std::unique_ptr<model::Decoder> begun(const StartingPoint& point,
                                        const recipe::LoadedRecipe& recipe) const {
    auto decoder = std::make_unique<model::Decoder>(recipe.recipe.model, Precision::named("fp32"));
    decoder->parameters().initialise(static_cast<uint64_t>(recipe.recipe.train.seed));
    std::vector<StateEntry> entries;
    for (const auto& parameter : decoder->parameters().all()) {
      for (size_t i = 0; i < parameter->parts.size(); ++i) {
        const model::Part& part = parameter->parts[i];
        entries.push_back({.name = part.spec.tensor.name,
                           .file = "model",
                           .role = kWeightRole,
                           .shape = part.spec.tensor.global_shape,
                           .held = part.held,
                           .view = parameter->part_of(parameter->value.detach(), i)});
      }
    }
    point.require_fitting(recipe);
    point.read(entries, recipe);
    for (const auto& parameter : decoder->parameters().all()) parameter->written();
    return decoder;
  }

  // A box of one tensor of the converted model; NAN where nothing was written.
  static Tensor box(const StartingPoint& point, const recipe::LoadedRecipe& recipe, const std::string& name,
                    const layout::Shape& shape, const layout::Rectangle& held) {
    StateEntry entry{.name = name,
                     .file = "model",
                     .role = kWeightRole,
                     .shape = shape,
                     .held = held,
                     .view = at::full(held.length, NAN)};
    point.read({entry}, recipe);
    return entry.view;
  }
  static Tensor whole(const StartingPoint& point, const recipe::LoadedRecipe& recipe, const std::string& name,
                      const layout::Shape& shape) {
    return box(point, recipe, name, shape, layout::Rectangle::whole(shape));
  }
  // A tensor of the dense model, as the importer's own test compares it with transformers.
  Tensor dense(const std::string& family, const std::string& name, const layout::Shape& shape) const {
    const auto point = StartingPoint::open(folder_.path() / family);
    recipe::LoadedRecipe recipe;
    recipe.recipe.model = point->model();
    return whole(*point, recipe, name, shape);
  }
};

// A window that sees everything changes nothing: these are transformers' own logits.
TEST_F(ConversionTest, AWindowLongerThanTheTextGivesTheOldLogits) {
  const auto point = from("llama", "window:1000*1,softmax*1");
  const Tensor ids = read_tensor(kGolden / "llama" / "expected.safetensors", "ids");
  const Tensor expected = read_tensor(kGolden / "llama" / "expected.safetensors", "logits");
  const Tensor found = logits_of(*begun(*point, recipe_of(*point)), ids);
  EXPECT_LT((found - expected).abs().max().item<double>(), 1e-5 * expected.abs().max().item<double>());
  const auto narrow = from("llama", "window:2*1,softmax*1");
  const Tensor other = logits_of(*begun(*narrow, recipe_of(*narrow)), ids);
  EXPECT_GT((other - expected).abs().max().item<double>(), 1e-3) << "and a narrow one does";
}

TEST_F(ConversionTest, GatedLinearAttentionTakesProjectionsAndBiases) {
  const auto point = from("qwen2", "window:16*1,gla*1");
  const recipe::LoadedRecipe recipe = recipe_of(*point);
  const recipe::ModelConfig& model = recipe.recipe.model;
  EXPECT_EQ(model.family, "longhaul");
  EXPECT_EQ(model.gla.key_heads, 1);
  EXPECT_EQ(model.gla.key_dim, model.head_dim);
  EXPECT_TRUE(model.gla.bias);
  const int64_t rows = model.heads * model.head_dim, hidden = model.hidden;
  for (const std::string name :
       {"layers.1.mixer.query.weight", "layers.1.mixer.query.bias", "layers.0.mixer.key.weight"}) {
    const int64_t out = name.find("key") != std::string::npos ? model.head_dim : rows;
    const layout::Shape shape = name.ends_with("bias") ? layout::Shape{out} : layout::Shape{out, hidden};
    EXPECT_TRUE(whole(*point, recipe, name, shape).equal(dense("qwen2", name, shape))) << name;
  }
  EXPECT_TRUE(
      whole(*point, recipe, "layers.1.mixer.forget_down.weight", {16, hidden}).isnan().all().item<bool>())
      << "as it was drawn";
  EXPECT_THAT(point->require_fitting(recipe),
              AllOf(HasSubstr("attention over 16 keys in layers 0"), HasSubstr("gla in layers 1")));
  EXPECT_EQ(point->origin().at("converted"), "window:16*1,gla*1");
  EXPECT_FALSE(point->origin().contains("imported_family"));
  const Tensor logits =
      logits_of(*begun(*point, recipe), read_tensor(kGolden / "qwen2" / "expected.safetensors", "ids"));
  EXPECT_TRUE(logits.isfinite().all().item<bool>());
}

// Two query heads share one key head: lightning has a key for each, so the key is copied to both, and a
// rank's box may begin in the middle of one.
TEST_F(ConversionTest, KeysAndValuesAreCopiedToEveryHeadOfTheirGroup) {
  const auto point = from("llama", "lightning*1,gated_deltanet*1");
  const recipe::LoadedRecipe recipe = recipe_of(*point);
  const int64_t d = recipe.recipe.model.head_dim, hidden = recipe.recipe.model.hidden;
  for (const char* part : {"key", "value"}) {
    for (const int64_t layer : {0, 1}) {
      const std::string name = fmt::format("layers.{}.mixer.{}.weight", layer, part);
      const Tensor one = dense("llama", name, {d, hidden}),
                   both = whole(*point, recipe, name, {2 * d, hidden});
      EXPECT_TRUE(both.narrow(0, 0, d).equal(one) && both.narrow(0, d, d).equal(one)) << name;
      const Tensor inner =
          box(*point, recipe, name, {2 * d, hidden}, {.offset = {d - 3, 2}, .length = {7, 5}});
      EXPECT_TRUE(inner.narrow(0, 0, 3).equal(one.narrow(0, d - 3, 3).narrow(1, 2, 5))) << name;
      EXPECT_TRUE(inner.narrow(0, 3, 4).equal(one.narrow(0, 0, 4).narrow(1, 2, 5))) << name;
    }
  }
  const Tensor convolution = whole(*point, recipe, "layers.1.mixer.key_convolution.weight", {2 * d, 4});
  EXPECT_TRUE(convolution.select(1, 3).eq(1).all().item<bool>() &&
              convolution.narrow(1, 0, 3).eq(0).all().item<bool>());
  EXPECT_TRUE(box(*point, recipe, "layers.1.mixer.key_convolution.weight", {2 * d, 4},
                  {.offset = {1, 1}, .length = {4, 2}})
                  .eq(0)
                  .all()
                  .item<bool>());
}

// σ(x Wf) with Wf = −Wk forgets 1 − k, so the key 1 − f is σ(x Wk).
TEST_F(ConversionTest, TiedKeysBeginAsTheNegativeGate) {
  const auto point = from("llama", "hgrn2*1,mixture*1");
  const recipe::LoadedRecipe recipe = recipe_of(*point);
  const int64_t d = recipe.recipe.model.head_dim, hidden = recipe.recipe.model.hidden;
  const Tensor first = dense("llama", "layers.0.mixer.key.weight", {d, hidden});
  const Tensor forget = whole(*point, recipe, "layers.0.mixer.forget.weight", {2 * d, hidden});
  EXPECT_TRUE(forget.narrow(0, 0, d).equal(-first) && forget.narrow(0, d, d).equal(-first));
  const Tensor second = dense("llama", "layers.1.mixer.key.weight", {d, hidden});
  EXPECT_TRUE(whole(*point, recipe, "layers.1.mixer.linear.forget.weight", {d, hidden}).equal(-second));
  EXPECT_TRUE(whole(*point, recipe, "layers.1.mixer.softmax.key.weight", {d, hidden}).equal(second));
}

TEST_F(ConversionTest, WhatDoesNotFitIsRefused) {
  const auto point = from("llama", "gla*1");
  const auto with = [&](const std::vector<std::string>& words) {
    const recipe::LoadedRecipe recipe = recipe_of(*point, words);
    return refused([&] { point->require_fitting(recipe); });
  };
  EXPECT_THAT(with({"model.gla.key_dim=5"}),
              AllOf(HasSubstr("mixer.key.weight [5, 12]"), HasSubstr("or a multiple of its rows")));
  EXPECT_THAT(with({"model.mixers=lightning"}),
              AllOf(HasSubstr("model.mixers = [\"gla\"]"), HasSubstr("(command line)")));
  EXPECT_THAT(with({"model.softmax.windows=8"}), HasSubstr("model.softmax.windows = "));
  EXPECT_THAT(with({"model.layers=4"}), AllOf(HasSubstr("model.layers = "), HasSubstr("4 here")));
  EXPECT_THAT(refused([&] { from("llama", "gla*3"); }), HasSubstr("divides the model's 2 layers"));
}

}  // namespace
}  // namespace longhaul::checkpoint
