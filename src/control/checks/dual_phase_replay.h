// Dual-phase replay finds which of m · n machines computes wrong results, in two rounds that replay the real
// job on small groups of machines (ByteRobust, arXiv 2509.16293 §5; docs/sources/reliability.md §4.1).
// Machine i is in horizontal group i / m (n groups of m machines) and in vertical group i mod n. All
// horizontal groups replay some steps at the same time, then all vertical groups do, with the tensor and
// pipeline parallelism of the run and fewer replicas. A group whose result differs from the others' holds the
// faulty machine: it is where the failing horizontal group and the failing vertical group intersect. With m
// <= n they intersect in one machine. m is k times the number of machines of one replica, and n is the number
// of replicas divided by k.
#pragma once

#include <cstdint>
#include <vector>

namespace longhaul::control {

struct ReplayGroups {
  int64_t machines_a_group = 1, groups = 1;  // m and n, for m · n machines
  int64_t machines() const { return machines_a_group * groups; }
  std::vector<int64_t> horizontal(int64_t group) const;
  std::vector<int64_t> vertical(int64_t group) const;
};
// Chooses the groups for `machines` machines when one replica takes `replica` of them: m is the largest
// multiple of `replica` that divides `machines` with m <= n. kUsage where there is no such multiple.
ReplayGroups replay_groups(int64_t machines, int64_t replica);

// The machines in which the failing groups intersect, in ascending order. The list is empty where one of the
// two rounds found nothing: then the fault did not show in that round.
std::vector<int64_t> suspects(const ReplayGroups& groups, const std::vector<int64_t>& failing_horizontal,
                              const std::vector<int64_t>& failing_vertical);

}  // namespace longhaul::control
