// This machine as a cluster that the planner knows (plan/cluster.h): what it was measured to reach, dealt out to ranks that are threads of it. And what a
// run's steps took beside what the planner says of them.
#pragma once

#include <filesystem>
#include <string>

#include "plan/cluster.h"
#include "recipe/recipe.h"

namespace longhaul::train {

plan::Cluster local_cluster(int64_t ranks = 1);

// One line; empty where the run has too few steps, or is not on this machine's processors.
std::string planned_against_measured(const std::filesystem::path& run, const recipe::Recipe& recipe);

}  // namespace longhaul::train
