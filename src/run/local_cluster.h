// This machine as a cluster that the planner knows (plan/cluster.h): what it was measured to reach, dealt out to ranks that are threads of it. And what a
// run's steps took, and its memory, beside what was planned.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "plan/cluster.h"
#include "recipe/recipe.h"

namespace longhaul::run {

// With the constants that were kept for it, else with guesses; its efficiency's source says which.
plan::Cluster local_cluster(int64_t ranks = 1);

// What `bench plan` found of this machine: kept in the user's cache beside its profile, under the same name, and read by local_cluster().
struct LocalConstants {
  plan::Efficiency efficiency;
  double link_rate = 0;    // bytes/s between all ranks together
  double worst_error = 0;  // of the runs that were predicted with them
};
void keep_local_constants(const LocalConstants& constants);
std::optional<LocalConstants> kept_local_constants();  // nothing where none were kept, or the file cannot be read

// A line of the step's time, where the run is on this machine's processors (of a few steps: that they are too few), and one of memory.
std::string planned_against_measured(const std::filesystem::path& run, const recipe::Recipe& recipe);

}  // namespace longhaul::run
