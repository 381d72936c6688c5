// The entries of the tasks that learn from judged answers.
#pragma once

#include "train/task_entry.h"

namespace longhaul::posttrain {

train::TaskEntry preference_entry();
train::TaskEntry reward_entry();  // reads preference.data too

}  // namespace longhaul::posttrain
