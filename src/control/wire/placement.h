// Placement: the rank of this process, the number of ranks, and the address of rank 0, as the engine that
// started it sets them in the environment (docs/sources/reliability.md §6). The sources are tried in this
// order: torchrun's variables (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT), which `longhaul
// launch`, Ray Train, Kubeflow's Training Operator and deploy/jobset.yaml set too; those of Kubeflow's
// Trainer v2 (PET_NODE_RANK, PET_NNODES, …); those of a Slurm step (SLURM_PROCID, SLURM_NTASKS, …). Otherwise
// this process is alone. control/engines/engine.h uses `engine` to find out what the engine can do.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace longhaul::control {

// Set by `longhaul launch` in addition to torchrun's variables: the typed options, "-n 4 --threads-per-rank
// 1".
inline constexpr const char* kLaunched = "LONGHAUL_LAUNCHED";
// Set where the ranks of a generation save nothing, since they only try whether they outlive some samples
// (control/driver/batch_search.h).
inline constexpr const char* kProbe = "LONGHAUL_PROBE";

struct Placement {
  int64_t rank = 0, size = 1;
  int64_t local_rank = 0, local_size = 1;  // on this machine
  int64_t node_rank = 0;                   // this machine's number, if the engine gives it
  std::string host;                        // host of rank 0, and the port of its store
  uint16_t port = 0;
  bool own_store = true;  // rank 0 runs the store; else torchrun's agent does
  // Number of the engine's attempt to start this job: keys of an earlier attempt are ignored.
  std::string attempt = "0";
  std::string engine = "alone";
};

using Environment = std::function<std::optional<std::string>(const std::string& name)>;
std::optional<std::string> variable(const std::string& name);  // of this process; empty ones count as unset

// Error 64 where variables are missing or contradict each other.
Placement find_place(const Environment& environment = variable);
// NAME=VALUE for a process that this program starts on this machine; rank 0 opens the port.
std::vector<std::string> environment_of_rank(int64_t rank, int64_t size, uint16_t port);
std::vector<std::string> hosts_in(const std::string& slurm_nodes);  // "n[03-04,20],m1" → n03 n04 n20 m1
// Number of tasks on the node with that number; "8(x2),4" → 8 8 4.
int64_t tasks_on(const std::string& slurm_tasks, int64_t node);

}  // namespace longhaul::control
