// The entry of `train.task = "reinforce"` (posttrain/reinforce/reinforce.h).
#pragma once

#include "train/task_entry.h"

namespace longhaul::posttrain {

train::TaskEntry reinforce_entry();

}  // namespace longhaul::posttrain
