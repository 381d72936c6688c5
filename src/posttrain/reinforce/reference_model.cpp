#include "posttrain/reinforce/reference_model.h"

#include "base/error.h"
#include "recipe/recipe.h"

namespace longhaul::posttrain {
namespace {

// Copies are whole, whatever the policy shares of its state.
layout::MeshRank of_whole_copies(layout::MeshRank place) {
  place.zero = 0;
  return place;
}

}  // namespace

ReferenceModel::ReferenceModel(const recipe::Recipe& recipe, const Precision& precision, at::Device device,
                               const parallel::Ranks& ranks)
    : decoder_(recipe.model, precision, device, model::Use::kInference, of_whole_copies(ranks.place())),
      stage_(decoder_, ranks) {}

void ReferenceModel::take_once(const model::ParameterSet& from) {
  if (std::exchange(taken_, true)) return;
  const at::NoGradGuard guard;
  const auto& own = decoder_.parameters().all();
  LONGHAUL_ASSERT(own.size() == from.all().size(), "{} tensors, {} of the policy", own.size(),
                  from.all().size());
  for (size_t i = 0; i < own.size(); ++i) {
    own[i]->value.copy_(from.all()[i]->value);
    own[i]->written();
  }
}

std::vector<checkpoint::StateEntry> ReferenceModel::tensors() {
  std::vector<checkpoint::StateEntry> entries;
  for (const auto& parameter : decoder_.parameters().all()) {
    for (size_t i = 0; i < parameter->parts.size(); ++i) {
      const model::Part& part = parameter->parts[i];
      entries.push_back({"task.reference." + part.spec.tensor.name, "task", "task",
                         part.spec.tensor.global_shape, part.held, parameter->part_of(parameter->value, i),
                         part.first_copy});
    }
  }
  return entries;
}

void ReferenceModel::restore(const checkpoint::SavedFacts& facts) {
  taken_ = facts.at("reinforce_reference").get<bool>();
  for (const auto& parameter : decoder_.parameters().all()) parameter->written();
}

}  // namespace longhaul::posttrain
