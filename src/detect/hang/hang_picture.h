// hang_picture: the mesh of a run that hangs, with who waits for whom (observe/charts/mesh_picture.h).
#pragma once

#include "detect/hang/hang.h"
#include "observe/charts/mesh_picture.h"
#include "recipe/recipe.h"

namespace longhaul::detect {

// pp × dp × cp × tp, as a recipe and the number of ranks have it.
std::vector<observe::MeshPicture::Axis> mesh_axes(const recipe::ParallelOptions& parallel, int64_t world);

observe::MeshPicture hang_picture(const HangReport& report, std::vector<observe::MeshPicture::Axis> axes);

}  // namespace longhaul::detect
