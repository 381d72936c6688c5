// Loading: a checkpoint into a model, or into all the state of a training run. Every tensor that is asked for must be in the
// checkpoint with its global shape, and the checkpoint may hold no weight the model lacks, but for what predicts further ahead, where weights alone are wanted; each difference is named (66).
#pragma once

#include "checkpoint/state.h"
#include "comm/communicator.h"
#include "model/parameter.h"
#include "storage/checkpoint_files.h"

namespace longhaul::checkpoint {

// Weights only, rounded to the model's working precision: sampling, scoring, evaluation.
void load_weights(const storage::Checkpoint& checkpoint, model::ParameterSet& parameters);

// The whole training state, exactly: every rank gets what it holds, whatever ranks had written it; of those that hold the same one reads it
// (shared_reads.h). `group`: the ranks that load together (a collective call), null: one process. A tensor of the checkpoint must have a
// place on one of them. kFresh: the states of optimizers, which may be another's than this run's, are left out.
enum class OptimizerStates { kRead, kFresh };
void load_training_state(const storage::Checkpoint& checkpoint, Providers state, comm::Communicator* group = nullptr,
                         OptimizerStates optimizer_states = OptimizerStates::kRead);

}  // namespace longhaul::checkpoint
