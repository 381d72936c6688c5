#include "checkpoint/state.h"

#include "base/error.h"

namespace longhaul::checkpoint {

const nlohmann::json& SavedFacts::at(const std::string& key) const {
  const auto found = state.find(key);
  if (found != state.end()) return *found;
  throw Error({.code = ExitCode::kCheckpoint,
               .what = "the checkpoint lacks a part of the training state",
               .expected = fmt::format("state.{}", key),
               .where = where});
}

int64_t SavedFacts::whole_number(const std::string& key) const {
  const nlohmann::json& value = at(key);
  if (value.is_number_integer()) return value.get<int64_t>();
  throw Error({.code = ExitCode::kCheckpoint,
               .what = "a part of the checkpoint's training state is no whole number",
               .expected = fmt::format("a whole number as state.{}", key),
               .found = value.dump().substr(0, 80),
               .where = where});
}

std::vector<StateEntry> tensors_of(Providers providers) {
  std::vector<StateEntry> all;
  for (StateProvider* provider : providers) {
    for (StateEntry& entry : provider->tensors()) {
      LONGHAUL_ASSERT(!entry.shape.empty() && entry.held.inside(entry.shape) &&
                          entry.view.sizes() == at::IntArrayRef(entry.held.length),
                      "'{}' holds {} of {}", entry.name, entry.held.text(), layout::shape_text(entry.shape));
      entry.view = entry.view.detach();
      all.push_back(std::move(entry));
    }
  }
  return all;
}

nlohmann::json facts_of(Providers providers) {
  nlohmann::json all = nlohmann::json::object();
  for (StateProvider* provider : providers) {
    const nlohmann::json facts = provider->facts();
    for (const auto& [key, value] : facts.items()) {
      LONGHAUL_ASSERT(!all.contains(key), "two providers of state have a fact '{}'", key);
      all[key] = value;
    }
  }
  return all;
}

}  // namespace longhaul::checkpoint
