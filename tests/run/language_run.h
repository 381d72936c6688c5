// run_training() with the tasks of language models, as `longhaul train` gives them.
#pragma once

#include <utility>

#include "language/tasks.h"
#include "run/run.h"

namespace longhaul::run {

inline train::Outcome run_training(RunRequest request, comm::Communicator* processes = nullptr) {
  return run_training(std::move(request), language::tasks(), processes);
}

}  // namespace longhaul::run
