// The lease: how long a node's ranks go on without a driver. A driver that died is started again and finds
// them, so ranks that make progress are left alone for long. If all ranks stand still, they have lost their
// peers as a rule: the driver runs elsewhere, has given this node up, and will never tell them to end. Times
// are seconds. Source: docs/sources/reliability.md §5.1.
#pragma once

#include <algorithm>
#include <vector>

#include "control/wire/messages.h"

namespace longhaul::control {

inline bool lease_is_over(const std::vector<RankBeat>& running, double alone_s, double lease_s) {
  const auto stands = [&](const RankBeat& rank) { return std::min(alone_s, rank.progress_age_s) > lease_s; };
  return !running.empty() && std::ranges::all_of(running, stands);
}

}  // namespace longhaul::control
