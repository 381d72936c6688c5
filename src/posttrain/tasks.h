// The tasks that follow pre-training.
#pragma once

#include "train/task_entry.h"

namespace longhaul::posttrain {

train::TaskEntries tasks();

}  // namespace longhaul::posttrain
