// The memory of a task that generates texts between its steps, with the engine of src/generate and the
// weights that it trains: the states of all sequences that are written at once, the pages of their keys and
// values, and what one pass over them needs. In bytes; all of it is gone when the texts are there.
#pragma once

#include <string>

#include "plan/memory/exact_memory.h"
#include "plan/memory/memory.h"

namespace longhaul::plan {

struct GenerationSizes {
  int64_t sequences = 0;  // written at once
  int64_t group = 1;      // sequences that continue one prompt, whose whole pages they share
  int64_t prompts = 0;    // of all groups, those included that wait until others have ended
  int64_t prompt = 0;     // tokens of the longest prompt
  int64_t tokens = 0;     // tokens of the longest text that continues it
};

// Activations at the fullest moment of the generation. The request says which model computes, and in what.
// `rank`: its share of the model's heads and layers, or null; with tensor ranks the passes are an upper
// bound.
double generation_bytes(const MemoryRequest& request, const GenerationSizes& sizes,
                        const RankRequest* rank = nullptr);

// Adds the moment `name` to the plan of a run: its state, with or without a checkpoint's copy beside it, and
// what the generation needs.
void add_generation(const std::string& name, double bytes, bool beside_checkpoint, MemoryPlan& plan);

}  // namespace longhaul::plan
