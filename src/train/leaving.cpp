// What a Trainer leaves of its state when another rank has failed (state_keeper.h).
#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/published/naming.h"
#include "train/trainer.h"

namespace longhaul::train {

// Where checkpoints in memory are kept, and all that changes does so in updates: not what a task keeps of its
// own, nor under an outer loop.
void Trainer::begin_keeping() {
  if (!options_.saves || !options_.leaves_state || !memory_.on() || options_.outer != nullptr) return;
  for (const checkpoint::StateEntry& entry : checkpoint::tensors_of(state_)) {
    if (entry.file == checkpoint::kTaskFiles) return;
  }
  keeper_.emplace([this, whole = manifest()](const WholeState& state) {
    storage::Manifest manifest = whole;
    manifest.wall_time = wall_time_text(wall_time_s());
    manifest.parent_step = parent_step_;
    manifest.state = state.facts;
    manifest.data_position = state.data_position;
    if (memory_.leave(state.step, checkpoint::tensors_of(state_), std::move(manifest)))
      log_info("rank {} leaves its state of step {} in its node's memory", ranks_.rank(), state.step);
  });
  keep();
}

void Trainer::keep() {
  if (keeper_)
    keeper_->whole({.step = step_,
                    .facts = checkpoint::facts_of(state_),
                    .data_position = task_.data_position(step_ + 1)});
}

}  // namespace longhaul::train
