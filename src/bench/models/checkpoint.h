// What a checkpoint in memory costs the step that follows it: whole training steps of a preset on random tokens, in turns: without one;
// with the state copied before the step goes on; and with the copy beside the next forward and backward passes and the files written into
// /dev/shm (checkpoint/ memory_saver.h). The pause is how long the trainer stood still; the rest of what a turn takes longer is the cores
// that the copy and the checksums take. The check: what lies in memory is, byte for byte by its checksums, whole, and the state of that
// step.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "observe/table.h"

namespace longhaul::bench {

struct CheckpointRequest {
  std::string preset = "first-run";
  int64_t batch = 8, micro_batch = 8, sequence = 256;
  std::string dtype = "bf16";
  int64_t steps = 7;  // of each kind, timed
};

struct CheckpointCost {
  int64_t bytes = 0;          // of the state
  double plain_s = 0;         // a step without; medians, as all below
  double copied_first_s = 0;  // with the copy in front
  double copied_first_pause_s = 0;
  double beside_s = 0;  // with the copy and the writing beside it
  double beside_pause_s = 0;
  double in_memory_s = 0;  // from the end of the step until it could be gone on from
  double processor_s = 0;  // of the thread that writes
  bool whole = true;
  double pause_share() const { return beside_pause_s / plain_s; }
};

CheckpointCost measure_checkpoint(const CheckpointRequest& request);

nlohmann::ordered_json to_json(const CheckpointRequest& request, const CheckpointCost& cost);
observe::Table table_of(const CheckpointRequest& request, const CheckpointCost& cost);

}  // namespace longhaul::bench
