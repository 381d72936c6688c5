#include "control/checks/dual_phase_replay.h"

#include <algorithm>

#include "base/error.h"

namespace longhaul::control {

std::vector<int64_t> ReplayGroups::horizontal(int64_t group) const {
  std::vector<int64_t> machines;
  for (int64_t i = group * machines_a_group; i < (group + 1) * machines_a_group; ++i) machines.push_back(i);
  return machines;
}

std::vector<int64_t> ReplayGroups::vertical(int64_t group) const {
  std::vector<int64_t> chosen;
  for (int64_t i = group; i < machines(); i += groups) chosen.push_back(i);
  return chosen;
}

ReplayGroups replay_groups(int64_t machines, int64_t replica) {
  for (int64_t m = replica > 0 ? machines / replica * replica : 0; m > 0; m -= replica) {
    if (machines % m == 0 && m <= machines / m) return {.machines_a_group = m, .groups = machines / m};
  }
  throw Error({.code = ExitCode::kUsage,
               .what = "these machines cannot be dealt out for a replay",
               .expected = "at least as many replicas as a replica has machines",
               .found = fmt::format("{} machines, {} a replica", machines, replica),
               .hint = "replay with a smaller pipeline or tensor size"});
}

std::vector<int64_t> suspects(const ReplayGroups& groups, const std::vector<int64_t>& failing_horizontal,
                              const std::vector<int64_t>& failing_vertical) {
  std::vector<int64_t> found;
  for (const int64_t row : failing_horizontal) {
    for (const int64_t machine : groups.horizontal(row)) {
      if (std::find(failing_vertical.begin(), failing_vertical.end(), machine % groups.groups) !=
          failing_vertical.end())
        found.push_back(machine);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace longhaul::control
