// The tasks of language models: "pretrain" (language/pretrain.h) and "recall" (language/recall.h).
#pragma once

#include "train/task_entry.h"

namespace longhaul::language {

train::TaskEntries tasks();

}  // namespace longhaul::language
