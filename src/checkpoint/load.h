// Loads a checkpoint into a model, or into the complete state of a training run. Every tensor that is asked
// for must be in the checkpoint with its global shape. The checkpoint may hold no weight that the model
// lacks, except, when only weights are wanted, the weights that predict further tokens ahead. Each
// difference is named in the error (exit code 66).
#pragma once

#include "checkpoint/state.h"
#include "comm/communicator.h"
#include "model/parameter.h"
#include "storage/checkpoint_files.h"

namespace longhaul::checkpoint {

// Weights only, rounded to the model's working precision: sampling, scoring, evaluation. `group`: the ranks
// that have the model together (a collective call); null: one process has all of it.
void load_weights(const storage::Checkpoint& checkpoint, model::ParameterSet& parameters,
                  comm::Communicator* group = nullptr);

// Loads the complete training state, exactly. Every rank gets the rectangles that it holds, whichever ranks
// had written them; of the ranks that hold the same rectangle, one reads it (shared_reads.h). `group`: the
// ranks that load together (a collective call); null: one process. Every tensor of the checkpoint must have
// a place on one of the ranks. kFresh: optimizer states are not read; they may belong to another optimizer
// than this run's.
enum class OptimizerStates { kRead, kFresh };
void load_training_state(const storage::Checkpoint& checkpoint, Providers state,
                         comm::Communicator* group = nullptr,
                         OptimizerStates optimizer_states = OptimizerStates::kRead);

}  // namespace longhaul::checkpoint
