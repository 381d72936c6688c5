// What the ranks of a run are, over what they exchange, and on which device each computes: decided from the
// recipe (parallel.backend, train.device), from how the process was started, and from what is there. Nothing
// is replaced silently: a recipe that asks for processes but was started as one process, for a back end that
// this program was built without, or for a GPU that is not there or is another rank's, gets an error that
// says what to type (kUsage). A recipe without a wish takes what was started, and GPUs where they are.
#pragma once

#include "comm/placement.h"
#include "recipe/load.h"
#include "tensor/device.h"

namespace longhaul::run {

struct Gpus {  // of this process; tests have their own
  int64_t visible = 0;
  bool nccl = false;  // whether the program can exchange over it
};
Gpus gpus_of_process();

void require_backend(const recipe::LoadedRecipe& recipe, const comm::Placement& place);

struct RankPlace {
  recipe::Backend backend = recipe::Backend::kThreads;  // never kAuto
  at::Device device = at::kCPU;
  std::string why{};  // how `auto` was decided; empty: the recipe says it
};

// With kNccl each rank of a machine has the GPU of its number there (LOCAL_RANK, SLURM_LOCALID), or the only
// one that it sees, where the launcher shows it one (CUDA_VISIBLE_DEVICES).
RankPlace place_of_rank(const recipe::LoadedRecipe& recipe, const comm::Placement& place,
                        const Gpus& gpus = gpus_of_process());

}  // namespace longhaul::run
