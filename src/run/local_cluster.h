// This machine as a cluster for the planner (plan/cluster.h): its measured speed, divided among ranks that
// are its threads. Also the comparison of a run's measured step time and memory with the plan.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "plan/cluster.h"
#include "recipe/recipe.h"

namespace longhaul::run {

// Uses the constants that `bench plan` stored for this machine, otherwise guesses; the source of its
// efficiency says which.
plan::Cluster local_cluster(int64_t ranks = 1);

// The constants that `bench plan` measured on this machine. They are stored in the user's cache beside the
// machine's profile, under the same name, and local_cluster() reads them.
struct LocalConstants {
  plan::Efficiency efficiency;
  double link_rate = 0;    // bytes/s between all ranks together
  double worst_error = 0;  // the largest error among the runs that were predicted with them
};
void keep_local_constants(const LocalConstants& constants);
// nothing where none were stored or the file cannot be read
std::optional<LocalConstants> kept_local_constants();

// One line about the step time, if the run uses this machine's processors (after few steps it says that they
// are too few), and one about memory.
std::string planned_against_measured(const std::filesystem::path& run, const recipe::Recipe& recipe);

}  // namespace longhaul::run
