#include "recipe/sections/guard_options.h"

#include "recipe/options/option.h"

namespace longhaul::recipe {

std::vector<std::string_view> names_of(OnSpike) { return {"off", "tell", "skip", "roll_back"}; }

void declare(OptionSet& set, GuardOptions& guard) {
  set.add("guard.on_spike", guard.on_spike,
          "What to do when the loss or the gradient norm jumps: nothing (off), an alarm (tell), also compute "
          "the step again and leave it out when "
          "it was no error of the machine (skip), also go back to an earlier checkpoint and pass over the "
          "data when it happens twice within 20 "
          "steps (roll_back).")
      .may_change();
  set.add("guard.spike_back", guard.spike_back,
          "How far before the spike the checkpoint lies that a rollback goes to, and how many steps' data "
          "before the spike are then passed over.")
      .unit("steps")
      .at_least(1)
      .may_change();
  set.add("guard.rollbacks", guard.rollbacks,
          "Rollbacks of a run after which the next spike ends it with exit code 67, for a person to look at.")
      .at_least(0)
      .may_change();
  set.add("guard.rate_factor", guard.rate_factor,
          "What the learning rate is multiplied with at each rollback, from there on.")
      .above(0)
      .at_most(1)
      .may_change();
  set.add("guard.replicas_every", guard.replicas_every,
          "Steps between comparisons of what several ranks hold copies of, bit by bit; the rank that differs "
          "ends the run with exit code 71. 0: none.")
      .unit("steps")
      .at_least(0)
      .may_change();
  set.add("guard.states_every", guard.states_every,
          "Steps between looks for values of weights and optimizer states that cannot be: not finite, "
          "negative squares, means larger than "
          "their squares allow. 0: none.")
      .unit("steps")
      .at_least(0)
      .may_change();
  set.add("guard.products_every", guard.products_every,
          "Steps between checks of a matrix product by the sums of its rows, of a layer drawn by chance. 0: "
          "none.")
      .unit("steps")
      .at_least(0)
      .may_change();
  set.add("guard.replay_every", guard.replay_every,
          "Steps between replays: each replica computes a micro-batch of its neighbour's, and all layers' "
          "outputs must be the same bits; alone, its "
          "own once more. 0: none.")
      .unit("steps")
      .at_least(0)
      .may_change();
}

}  // namespace longhaul::recipe
