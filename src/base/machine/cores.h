// The cores that this process may run on, and how many of them may work at once.
#pragma once

#include <vector>

namespace longhaul {

std::vector<int> allowed_cores();  // their numbers
double core_quota();               // limit of its cgroup in cores; infinite: there is none

}  // namespace longhaul
