// Measures what an in-memory checkpoint costs the step that follows it. Whole training steps of a preset on
// random tokens take turns: a step without a checkpoint; one before which the state is copied; and one in
// which the copy runs during the next forward and backward passes and the files are written into /dev/shm
// (checkpoint/ memory_saver.h). The pause is how long the trainer was blocked; the rest of the additional
// time is the cores that the copy and the checksums take. The check: the files in memory are complete, byte
// for byte by their checksums, and hold the state of that step.
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
  int64_t steps = 7;  // timed steps of each kind
};

struct CheckpointCost {
  int64_t bytes = 0;          // bytes of the state
  double plain_s = 0;         // a step without a checkpoint; a median, as all times below
  double copied_first_s = 0;  // a step with the copy before it
  double copied_first_pause_s = 0;
  double beside_s = 0;  // a step with copying and writing during it
  double beside_pause_s = 0;
  double in_memory_s = 0;  // from the end of the step until a run could resume from it
  double processor_s = 0;  // CPU time of the thread that writes
  bool whole = true;
  double pause_share() const { return beside_pause_s / plain_s; }
};

CheckpointCost measure_checkpoint(const CheckpointRequest& request);

nlohmann::ordered_json to_json(const CheckpointRequest& request, const CheckpointCost& cost);
observe::Table table_of(const CheckpointRequest& request, const CheckpointCost& cost);

}  // namespace longhaul::bench
