// hang_picture draws the mesh of a hanging run and which rank waits for which
// (observe/charts/mesh_picture.h).
#pragma once

#include "detect/hang/hang.h"
#include "observe/charts/mesh_picture.h"
#include "recipe/recipe.h"

namespace longhaul::detect {

// The axes pp × dp × cp × tp for the recipe and the number of ranks.
std::vector<observe::MeshPicture::Axis> mesh_axes(const recipe::ParallelOptions& parallel, int64_t world);

observe::MeshPicture hang_picture(const HangReport& report, std::vector<observe::MeshPicture::Axis> axes);

}  // namespace longhaul::detect
