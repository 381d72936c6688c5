// Placement: which rank this process is, of how many, and where rank 0 is, as the engine that started it says in the environment
// (docs/sources/reliability.md §6). In this order: torchrun's variables (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT), which `longhaul
// launch`, Ray Train, Kubeflow's Training Operator and deploy/jobset.yaml set too; Kubeflow's Trainer v2 (PET_NODE_RANK, PET_NNODES, …); Slurm's
// of a step (SLURM_PROCID, SLURM_NTASKS, …); else this process is alone. Which engine that is, control/engines/engine.h asks of it what it can do.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace longhaul::control {

// Set by `longhaul launch` beside torchrun's variables: the options that were typed, "-n 4 --threads-per-rank 1".
inline constexpr const char* kLaunched = "LONGHAUL_LAUNCHED";

struct Placement {
  int64_t rank = 0, size = 1;
  int64_t local_rank = 0, local_size = 1;  // on this machine
  int64_t node_rank = 0;                   // this machine's number, where the engine says it
  std::string host;                        // of rank 0, and the port of its store
  uint16_t port = 0;
  bool own_store = true;      // rank 0 holds it; else torchrun's agent does
  std::string attempt = "0";  // of the engine to start this job: keys of an earlier one are not looked at
  std::string engine = "alone";
};

using Environment = std::function<std::optional<std::string>(const std::string& name)>;
std::optional<std::string> variable(const std::string& name);  // of this process; empty ones count as unset

Placement find_place(const Environment& environment = variable);  // Error 64 where variables are missing or contradict each other
// NAME=VALUE of a process that this program starts, on this machine; rank 0 opens the port.
std::vector<std::string> environment_of_rank(int64_t rank, int64_t size, uint16_t port);
std::vector<std::string> hosts_in(const std::string& slurm_nodes);  // "n[03-04,20],m1" → n03 n04 n20 m1
int64_t tasks_on(const std::string& slurm_tasks, int64_t node);     // of the node of that number; "8(x2),4" → 8 8 4

}  // namespace longhaul::control
