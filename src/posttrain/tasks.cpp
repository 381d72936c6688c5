#include "posttrain/tasks.h"

#include "posttrain/preference/entries.h"

namespace longhaul::posttrain {

train::TaskEntries tasks() {
  static const train::TaskEntry all[] = {preference_entry(), reward_entry()};
  return all;
}

}  // namespace longhaul::posttrain
