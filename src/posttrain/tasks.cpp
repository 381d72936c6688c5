#include "posttrain/tasks.h"

namespace longhaul::posttrain {

train::TaskEntries tasks() { return {}; }

}  // namespace longhaul::posttrain
