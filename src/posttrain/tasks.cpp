#include "posttrain/tasks.h"

#include <vector>

#include "posttrain/chat/chat_task.h"
#include "posttrain/preference/entries.h"
#include "posttrain/reinforce/reinforce_entry.h"

namespace longhaul::posttrain {

train::TaskEntries tasks() {
  static const std::vector<train::TaskEntry> all{chat_entry(), preference_entry(), reward_entry(),
                                                 reinforce_entry()};
  return all;
}

}  // namespace longhaul::posttrain
