// Dual-phase replay: which of m · n machines miscalculates, found in two rounds of the real job on small groups of them (ByteRobust, arXiv 2509.16293
// §5; docs/sources/reliability.md §4.1). Machine i is in horizontal group i / m (n groups of m) and in vertical group i mod n; all horizontal groups
// replay some steps at the same time, then all vertical ones, with tensor and pipeline parallelism as in the run and fewer replicas. A group
// that differs from the others holds the machine; where the two groups meet it stands. With m <= n they meet in one machine.
// m: k times the machines of one replica; n: replicas / k.
#pragma once

#include <cstdint>
#include <vector>

namespace longhaul::control {

struct ReplayGroups {
  int64_t machines_a_group = 1, groups = 1;  // m, n: m · n machines
  int64_t machines() const { return machines_a_group * groups; }
  std::vector<int64_t> horizontal(int64_t group) const;
  std::vector<int64_t> vertical(int64_t group) const;
};
// For so many machines, of which a replica takes `replica`: m the largest multiple of it that divides them with m <= n. kUsage where none does.
ReplayGroups replay_groups(int64_t machines, int64_t replica);

// Where failing groups meet, in order. Empty: one of the two rounds found nothing, so the fault did not show.
std::vector<int64_t> suspects(const ReplayGroups& groups, const std::vector<int64_t>& failing_horizontal,
                              const std::vector<int64_t>& failing_vertical);

}  // namespace longhaul::control
