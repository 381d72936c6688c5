#include "bench/ranks/coupled_transfers.h"

#include <algorithm>
#include <iterator>

namespace longhaul::bench {

layout::Schedule with_coupled_transfers(layout::Schedule schedule) {
  using layout::Action, layout::Pass;
  for (std::vector<Action>& list : schedule.ranks) {
    std::vector<Action> passes;
    std::ranges::copy_if(list, std::back_inserter(passes),
                         [](const Action& action) { return !action.transfer(); });
    // The transfer of a pass's own tensor, or of the one that it needs, if it has one.
    const auto add = [&](std::vector<Action>& to, Pass kind, size_t pass) {
      if (pass >= passes.size() || passes[pass].pass == Pass::kBackwardWeight) return;
      const auto channel =
          passes[pass].backward() ? layout::Channel::kGradients : layout::Channel::kActivations;
      std::ranges::copy_if(list, std::back_inserter(to), [&](const Action& action) {
        return action.pass == kind && action.channel == channel && action.chunk == passes[pass].chunk &&
               action.micro_batch == passes[pass].micro_batch;
      });
    };
    std::vector<Action> whole;
    add(whole, Pass::kStartReceive, 0);
    add(whole, Pass::kWaitReceive, 0);
    for (size_t i = 0; i < passes.size(); ++i) {
      whole.push_back(passes[i]);
      add(whole, Pass::kStartSend, i);
      add(whole, Pass::kStartReceive, i + 1);
      add(whole, Pass::kWaitSend, i);
      add(whole, Pass::kWaitReceive, i + 1);
    }
    list = std::move(whole);
  }
  return schedule;
}

}  // namespace longhaul::bench
