// The entries of the tasks that learn from judged answers.
#pragma once

#include "train/task_entry.h"

namespace longhaul::posttrain {

train::TaskEntry preference_entry();

}  // namespace longhaul::posttrain
