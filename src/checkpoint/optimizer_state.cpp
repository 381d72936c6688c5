#include "checkpoint/optimizer_state.h"

#include "checkpoint/published/naming.h"

namespace longhaul::checkpoint {

std::vector<StateEntry> OptimizerState::tensors() {
  std::vector<StateEntry> entries;
  for (const optim::StateTensor& tensor : optimizer_.state()) {
    const bool weight = tensor.kind == "master";
    const std::string kind = std::string(kOptimizerPrefix) + tensor.kind;
    entries.push_back({.name = weight ? tensor.name : kind + "." + tensor.name,
                       .file = weight ? kModelFiles : kOptimizerFiles,
                       .role = weight ? kWeightRole : kind,
                       .shape = tensor.global_shape,
                       .held = tensor.held,
                       .view = tensor.view.detach(),
                       .written_here = tensor.first_copy});
  }
  return entries;
}

void OptimizerState::restore(const SavedFacts& facts) {
  optimizer_.set_steps(facts.whole_number("optimizer_steps"));
  optimizer_.refresh_values();
}

}  // namespace longhaul::checkpoint
