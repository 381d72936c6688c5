// RunFacts: what is known about a run before its first step. From it come the first event, the tables on the
// terminal, and the environment in its checkpoints. It is made from the recipe, the data, the machine and the
// plans.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "data/run_data.h"
#include "layout/mesh.h"
#include "observe/events/event.h"
#include "plan/flops.h"
#include "plan/memory/memory.h"
#include "recipe/load.h"
#include "run/shared_cores.h"
#include "tensor/device.h"
#include "train/task_entry.h"

namespace longhaul::run {

struct RunFacts {
  const train::TaskEntry& task;
  const train::ModelPlan& model;
  const recipe::LoadedRecipe& recipe;
  const std::filesystem::path& run_folder;
  const data::RunData& data;
  at::Device device;
  layout::Mesh mesh;        // of one worker
  int64_t workers = 1;      // of an outer loop
  plan::MemoryPlan memory;  // of this process: its rank, or its threads together (run/memory.h)
  int64_t free_bytes = 0;   // on the device, before the run
  plan::TokenFlops flops;
  double flops_again = 0;  // of a token, repeated by recomputation
  MeasuredPeak peak;
  int64_t processes = 1;  // that train together, each with its own threads

  int64_t world() const { return workers * mesh.world(); }
  std::string_view dtype() const;
  // Of all processes together, from the measurement of the first one; 0: not measured.
  double peak_flops_per_second() const { return peak.profile.gemm(dtype()) * peak.times; }
  int64_t training_tokens() const;  // of one epoch
};

observe::RunStart run_start(const RunFacts& facts);
// epochs: of the training data, over the whole run
std::string tables_of(const RunFacts& facts, double epochs, bool colours);
nlohmann::json environment_of(int64_t seed, at::Device device);

}  // namespace longhaul::run
