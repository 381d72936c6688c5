// config.json as it lies on the Hub (tests/golden/published_configs.json): every text is read, and describes
// a model of as many parameters as are published.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/files/file.h"
#include "layout/parameters.h"
#include "model/families/config_text.h"
#include "model/families/families.h"
#include "support/places.h"
#include "support/refused.h"

namespace longhaul::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::refused;

nlohmann::json golden_configs() {
  const auto file = std::filesystem::path(source_folder()) / "tests" / "golden" / "published_configs.json";
  return nlohmann::json::parse(json_of_python(read_text(file)));
}

nlohmann::json config_of(const std::string& model) {
  for (const auto& each : golden_configs())
    if (each["model"] == model) return each["config"];
  ADD_FAILURE() << model;
  return {};
}

recipe::ModelConfig read(const nlohmann::json& config) {
  return read_config(family_of(config, "config.json"), config, "config.json");
}

TEST(PublishedConfigs, AreReadAsTheyArePublished) {
  const nlohmann::json all = golden_configs();
  EXPECT_GE(all.size(), 20u);
  for (const auto& each : all) {
    const auto name = each["model"].get<std::string>();
    ASSERT_EQ(refused([&] { read(each["config"]); }), "accepted") << name;
    if (!each.contains("parameters")) continue;
    EXPECT_EQ(layout::parameter_count(read(each["config"])), each["parameters"].get<int64_t>()) << name;
  }
}

TEST(PublishedConfigs, WindowsAreThoseThatTransformersUses) {
  const auto windows_of = [](nlohmann::json config, const nlohmann::json& changes) {
    config.update(changes);
    const recipe::ModelConfig model = read(config);
    std::vector<int64_t> windows;
    for (int64_t l = 0; l < 4; ++l) windows.push_back(model.softmax.window(l));
    return windows;
  };
  const nlohmann::json used = {{"use_sliding_window", true}, {"sliding_window", 8}};
  nlohmann::json below_two = used, listed = used;
  below_two["max_window_layers"] = 2;
  // Qwen2Config, Qwen3Config: i >= max_window_layers.
  EXPECT_EQ(windows_of(config_of("Qwen/Qwen2.5-0.5B"), below_two), (std::vector<int64_t>{0, 0, 8, 8}));
  // Qwen2MoeConfig: (i + 1) % 2 and i < max_window_layers.
  EXPECT_EQ(windows_of(config_of("Qwen/Qwen1.5-MoE-A2.7B"), used), (std::vector<int64_t>{8, 0, 8, 0}));
  EXPECT_EQ(windows_of(config_of("Qwen/Qwen1.5-MoE-A2.7B"), below_two), (std::vector<int64_t>{8, 0, 0, 0}));
  // Qwen3MoeModel: one mask for all.
  EXPECT_EQ(windows_of(config_of("Qwen/Qwen3-30B-A3B"), below_two), (std::vector<int64_t>{8, 8, 8, 8}));
  EXPECT_EQ(windows_of(config_of("Qwen/Qwen3-30B-A3B"), {{"sliding_window", 8}}),
            (std::vector<int64_t>{0, 0, 0, 0}));
  listed["layer_types"] = std::vector<std::string>(48, "full_attention");
  EXPECT_THAT(refused([&] { windows_of(config_of("Qwen/Qwen3-30B-A3B"), listed); }),
              HasSubstr("layer_types"));
  listed["layer_types"] = std::vector<std::string>(48, "sliding_attention");
  EXPECT_EQ(windows_of(config_of("Qwen/Qwen3-30B-A3B"), listed), (std::vector<int64_t>{8, 8, 8, 8}));
}

// What changes nothing with one value might with another.
TEST(PublishedConfigs, FieldsThatSayNothingMustSayIt) {
  const nlohmann::json qwen = config_of("Qwen/Qwen2.5-0.5B"), smol = config_of("HuggingFaceTB/SmolLM2-135M");
  const auto with = [](nlohmann::json config, const char* field, const nlohmann::json& value) {
    config[field] = value;
    return refused([&] { read(config); });
  };
  EXPECT_THAT(with(qwen, "use_mrope", true), HasSubstr("use_mrope"));
  EXPECT_THAT(with(smol, "rope_interleaved", true), HasSubstr("rope_interleaved"));
  EXPECT_THAT(with(smol, "add_cross_attention", true), HasSubstr("add_cross_attention"));
  EXPECT_THAT(with(smol, "pruned_heads", {{"0", {1}}}), HasSubstr("pruned_heads"));
  for (const auto& [field, value] :
       {std::pair<const char*, nlohmann::json>{"pruned_heads", nlohmann::json::object()},
        {"add_cross_attention", false},
        {"unsloth_version", "2026.7.3"},
        {"is_decoder", true}})
    EXPECT_EQ(with(smol, field, value), "accepted") << field;
}

TEST(PublishedConfigs, AllUnknownFieldsAreNamedAtOnce) {
  nlohmann::json config = config_of("TinyLlama/TinyLlama-1.1B-Chat-v1.0");
  config.update({{"attention_sinks", 4}, {"logit_scale", 0.5}, {"zz_kind", "x"}});
  EXPECT_THAT(refused([&] { read(config); }),
              AllOf(HasSubstr("attention_sinks"), HasSubstr("also logit_scale, zz_kind")));
}

}  // namespace
}  // namespace longhaul::model
