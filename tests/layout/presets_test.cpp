// The presets that ship have lists that a mesh can place; parameters_test.cpp has their known sizes.
#include "recipe/architecture/presets.h"

#include <gtest/gtest.h>

#include "layout/parameters.h"

namespace longhaul::layout {
namespace {

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
