// Presets and the recipes that come with Longhaul.
#include "recipe/architecture/presets.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "base/files/file.h"
#include "recipe/check.h"
#include "recipe/load.h"
#include "recipe/options/toml_reader.h"
#include "recipe/support.h"
#include "support/places.h"

namespace longhaul::recipe {
namespace {

const std::filesystem::path kRoot = source_folder();

TEST(RecipePresets, AreTheFilesOfTheFolder) {
  std::vector<std::string> files, compiled;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kRoot / "presets")) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path().filename().string());
  }
  std::ranges::sort(files);
  for (std::string& file : files) file.resize(file.size() - std::string_view(".toml").size());
  for (const Preset& preset : presets()) {
    compiled.emplace_back(preset.name);
    EXPECT_EQ(preset.text, read_text(kRoot / std::string(preset.path)));
  }
  EXPECT_EQ(files, compiled);
  EXPECT_THAT(compiled, testing::IsSupersetOf({"first-run", "gpt2-124m", "hgrn2-1.3b", "hybrid-bench",
                                               "mamba2-130m", "minimax-text-01", "tnl-385m"}));
}

TEST(RecipePresets, FillTheModelSectionOnlyAndHoldTogether) {
  for (const Preset& preset : presets()) {
    for (const TomlEntry& entry : read_toml(preset.text, std::string(preset.name))) {
      EXPECT_TRUE(entry.key == "version" || entry.key == "description" || entry.key == "model" ||
                  entry.key.starts_with("model."))
          << entry.key;
      EXPECT_NE(entry.key, "model.preset");
    }
    const ModelConfig model = preset_model(preset.name);
    EXPECT_EQ(model.preset, preset.name);
    EXPECT_TRUE(problems(model).empty()) << preset.name;
  }
  EXPECT_EQ(error_of([] { preset_model("no such \"preset\""); }).code, ExitCode::kUsage);
  EXPECT_EQ(preset_model(""), ModelConfig{});
}

TEST(RecipePresets, KnownShapes) {
  const ModelConfig text01 = preset_model("minimax-text-01");
  EXPECT_EQ(text01.layers, 80);
  EXPECT_EQ(text01.hidden, 6144);
  EXPECT_EQ(text01.vocabulary, 200064);
  EXPECT_EQ(text01.heads * text01.head_dim, 8192);
  EXPECT_DOUBLE_EQ(text01.residual_alpha(), 3.5565588200778455);
  EXPECT_EQ(text01.wiring, Wiring::kPostNorm);
  EXPECT_EQ(text01.softmax.rotary_base, 1e7);
  for (int64_t layer = 0; layer < text01.layers; ++layer) {
    EXPECT_EQ(text01.mixer(layer), layer % 8 == 7 ? Mixer::kSoftmax : Mixer::kLightning) << layer;
  }

  const ModelConfig gpt2 = preset_model("gpt2-124m");
  EXPECT_EQ(gpt2.family, "gpt2");
  EXPECT_EQ(gpt2.vocabulary, 50257);
  EXPECT_EQ(gpt2.position, Position::kLearned);
  EXPECT_EQ(gpt2.norm, Norm::kLayer);
  EXPECT_TRUE(gpt2.bias && gpt2.tie_embeddings);

  const ModelConfig llama = preset_model("llama-3-8b");
  EXPECT_EQ(llama.intermediate, 14336);
  EXPECT_EQ(llama.softmax.kv_heads, 8);
  EXPECT_EQ(llama.softmax.rotary_base, 500000);

  ModelConfig hybrid = preset_model("hybrid-bench"), linear = preset_model("linear-bench");
  EXPECT_EQ(hybrid.mixers.size(), 8u);
  EXPECT_EQ(hybrid.experts, 8);
  ModelConfig softmax = preset_model("softmax-bench");
  EXPECT_EQ(linear.mixers, std::vector<Mixer>{Mixer::kLightning});
  EXPECT_EQ(softmax.mixers, std::vector<Mixer>{Mixer::kSoftmax});
  for (ModelConfig* pure : {&linear, &softmax}) {
    pure->mixers = hybrid.mixers;
    pure->preset = hybrid.preset;
    EXPECT_EQ(*pure, hybrid);
  }
}

// Those of tasks with options of their own are loaded where these are declared (tests/cli/recipes_test.cpp).
TEST(RecipeFiles, EveryRecipeOfTheFolderLoads) {
  int count = 0;
  for (const auto& path : list_files(kRoot / "recipes")) {
    if (path.extension() != ".toml" || path.parent_path().filename() == "posttrain") continue;
    EXPECT_NO_THROW(load(path)) << path;
    ++count;
  }
  EXPECT_GT(count, 0);
  const Recipe first = load(kRoot / "recipes/first-run.toml").recipe;
  EXPECT_EQ(first.model.preset, "first-run");
  EXPECT_THAT(first.data.source, testing::ElementsAre("libtorch"));
  EXPECT_EQ(first.data.vocabulary, first.model.vocabulary);
}

}  // namespace
}  // namespace longhaul::recipe
