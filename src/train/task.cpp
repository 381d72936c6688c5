#include "train/task.h"

#include "base/error.h"

namespace longhaul::train {

void Task::set_growth(const std::vector<optim::BatchGrowth>& grown) {
  LONGHAUL_ASSERT(grown.empty(), "a task whose batch cannot grow");
}

StageInput Task::stage_input(int64_t) const {
  throw Error({.code = ExitCode::kUsage,
               .what = "the task has no stages",
               .expected = "parallel.pp = 1",
               .where = "parallel.pp",
               .hint = "parallel.pp=1"});
}

}  // namespace longhaul::train
