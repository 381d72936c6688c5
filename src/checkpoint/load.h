// Loading: a checkpoint into a model, or a model and its optimizer. Every logical tensor the model holds must be in the
// checkpoint with its global shape, and the checkpoint may hold no weight the model lacks; each difference is named (66).
#pragma once

#include "model/parameter.h"
#include "optim/optimizer.h"
#include "storage/checkpoint_files.h"

namespace longhaul::checkpoint {

// Weights only, rounded to the model's working precision: sampling, scoring, evaluation.
void load_weights(const storage::Checkpoint& checkpoint, model::ParameterSet& parameters);

// Masters and moments, exactly; the working copies follow. The optimizer's step count is the caller's (manifest state).
void load_training_state(const storage::Checkpoint& checkpoint, optim::Optimizer& optimizer);

}  // namespace longhaul::checkpoint
