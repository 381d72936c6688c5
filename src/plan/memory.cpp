#include "plan/memory.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/progress.h"
#include "layout/parameters.h"

namespace longhaul::plan {

TrainingState training_state_bytes(const recipe::ModelConfig& config, std::string_view dtype) {
  const int64_t count = layout::parameter_count(config);
  if (dtype == "bf16") return {2 * count, 4 * count, 12 * count};
  const int64_t size = dtype == "fp64" ? 8 : 4;
  return {size * count, size * count, 2 * size * count};
}

void require_memory(const TrainingState& state, int64_t available_bytes) {
  if (state.total() <= available_bytes) return;
  throw Error(
      {.code = ExitCode::kOutOfMemory,
       .what = "the model does not fit into memory",
       .expected = fmt::format("at most {}, which is free here", bytes_text(available_bytes)),
       .found = fmt::format("{}: {} of weights, {} of gradients, {} of the optimizer; activations not counted", bytes_text(state.total()),
                            bytes_text(state.weights), bytes_text(state.gradients), bytes_text(state.optimizer)),
       .where = "model",
       .hint = "choose a smaller model, such as model.preset=first-run, or a machine with more memory; nothing was allocated"});
}

}  // namespace longhaul::plan
