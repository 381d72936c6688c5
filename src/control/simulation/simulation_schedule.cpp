#include "control/simulation/simulation.h"
#include "control/simulation/virtual_cluster.h"

namespace longhaul::control {

SimulationOptions quick_schedule(uint64_t seed) {
  SimulationOptions options{.seed = seed};
  Dice dice(seed, "schedule");
  options.nodes = 1 + dice.below(4);
  options.spares = dice.below(3);
  options.ranks_per_node = 1 + dice.below(3);
  options.fault_every_s = 5 + dice.exponential(30);
  options.deadly_sample = dice.uniform() < 0.1;
  options.policy.join_s = 120;
  options.policy.first_step_s = 30;
  options.policy.progress_floor_s = 6;
  options.policy.rank_silent_s = 4;
  options.policy.node_silent_s = 8;
  options.policy.lease_s = 16;
  options.policy.rejoin_s = 4;
  options.policy.gone_s = 15;
  options.policy.save_s = 20;
  options.policy.end_s = 20;
  options.policy.evidence_s = 1;
  options.policy.grow_s = 20;
  options.policy.block_s = 100;
  options.policy.same_place_s = 200;
  options.policy.check_s = 20;
  options.policy.stop_time_s = 35;
  options.policy.preflight = dice.uniform() < 0.3;
  options.policy.stop_checks = dice.uniform() < 0.3;
  options.policy.restarts = 1000;
  options.policy.back_off_most_s = 10;
  return options;
}

}  // namespace longhaul::control
