// Owners: the ranks over which the experts of a layer are dealt out, and this rank's place among them; also
// when the weight gradients of experts are computed. It holds what the dispatchers share (expert_dispatch.h).
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/threads/turns.h"
#include "kernels/gradient_sink.h"
#include "parallel/mesh_groups.h"

namespace longhaul::parallel {

struct Owners {
  Owners(const MeshGroups& mesh_groups, int64_t all_experts, Turns* turns_of_pairs)
      : groups(mesh_groups),
        turns(turns_of_pairs),
        ep(groups.size(layout::Axis::kEp)),
        etp(groups.size(layout::Axis::kEtp)),
        rank(groups.place().coordinate(layout::Axis::kEp)) {
    LONGHAUL_ASSERT(all_experts % ep == 0, "{} experts on {} ranks", all_experts, ep);
    experts = all_experts / ep;
  }
  comm::Communicator& over(layout::AxisSet axes) const { return groups.over(axes); }

  const MeshGroups& groups;
  Turns* turns;                        // the turns of paired passes; null: passes are not paired
  int64_t ep, etp, rank, experts = 0;  // experts: of each rank
};

// The weight gradients that are computed while a collective runs; null where they are computed at once: by
// choice, or because that collective is not in the backward pass.
inline std::shared_ptr<kernels::Postponed> queue_for(const Tensor& rows, bool delay) {
  return delay && rows.requires_grad() ? std::make_shared<kernels::Postponed>() : nullptr;
}

inline std::function<void()> emptying(const std::shared_ptr<kernels::Postponed>& queue) {
  if (queue == nullptr) return {};
  return [queue] {
    for (const auto& product : std::exchange(*queue, {})) product();
  };
}

}  // namespace longhaul::parallel
