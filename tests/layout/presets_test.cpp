// The presets that ship: known sizes, and lists that a mesh can place.
#include "recipe/presets.h"

#include <gtest/gtest.h>

#include "layout/parameters.h"

namespace longhaul::layout {
namespace {

TEST(PresetParameters, KnownCounts) {
  EXPECT_EQ(parameter_count(recipe::preset_model("minimax-text-01")), 456'089'655'296);
  EXPECT_EQ(activated_parameter_count(recipe::preset_model("minimax-text-01")), 45'944'920'064);
  EXPECT_EQ(parameter_count(recipe::preset_model("gpt2-124m")), 124'439'808);
  EXPECT_EQ(parameter_count(recipe::preset_model("llama-3-8b")), 8'030'261'248);
}

TEST(PresetParameters, EveryPresetHasAListThatOneRankHoldsWhole) {
  ASSERT_FALSE(recipe::presets().empty());
  for (const recipe::Preset& preset : recipe::presets()) {
    const recipe::ModelConfig config = recipe::preset_model(preset.name);
    for (const ParameterSpec& spec : parameters(config)) {
      const Rectangle held = rectangle_of(placement_of(spec, Mesh()), Mesh(), 0, spec.tensor.global_shape);
      ASSERT_EQ(held, Rectangle::whole(spec.tensor.global_shape)) << preset.name << " " << spec.tensor.name;
      ASSERT_GT(spec.elements(), 0) << preset.name << " " << spec.tensor.name;
    }
  }
}

}  // namespace
}  // namespace longhaul::layout
