// Cluster: on what a plan runs: an accelerator of the table (hardware.h), how many, what they reach of their limits, how often nodes fail, and what
// an hour costs. By name (each accelerator's is one, with defaults) or from a TOML file:
//
//   version = 1
//   accelerator = "h100"      # its row, of which anything can be set otherwise
//   gpus = 1024
//   memory_gb = 80
//   price_per_gpu_hour = 2.5
//
// Immutable.
#pragma once

#include <filesystem>
#include <string>

#include "plan/hardware.h"

namespace longhaul::plan {

// What kernels reach of the data sheet; products, memory and layer_s trade off against each other and are no measurements of their own (docs/guides/plan.md).
struct Efficiency {
  double products = 0.76;   // of the peak, in matrix products
  double memory = 0.6;      // of the memory's rate, in elementwise operators
  double layer_s = 700e-6;  // launching and waiting, a layer and direction
  std::string source;
  double message_s = 10e-6;  // latency of a collective on the fast link; twice that over the network
  double attention = 0;      // of the peak, in attention that keeps no scores, both passes; 0: as products
  double recurrence = 0;     // of the peak, in linear recurrences; 0: as products
  double step_s = 0;         // of a step, whatever is in it: its data, small tensors' updates, agreement of ranks, records
  double stop_s = 0;         // of a device at each message of the pipeline: software that waits there for all that was launched
  bool by_size = true;       // exchanges reach that share of a link's rate which their size allows (SimAI's measurements)
};

struct Cluster {
  std::string name;
  Accelerator device;
  Efficiency efficiency;
  int64_t gpus = 8;
  double host_rate = 25.6e9;  // bytes/s to the host's memory: PCIe 4 × 16, nominal × 0.8
  double file_rate = 2e9;  // bytes/s of a rank to the file of train.offload and back: a node's disks shared by its ranks, a guess of ours
  double failures_per_node_day = 3.79e-3;  // Llama 3: 419 interruptions of 2,048 nodes in 54 days
  double restart_s = 900;                  // from a failure to the next step: MegaScale's detection under 10 min and catch-up under 15
  double checkpoint_s = 10;                // in which training stands still for one
  double price_per_gpu_hour = 0;           // 0: not known
  double reserved_bytes = 2e9;             // of each device, for driver and communicators
  double fragmentation = 0.05;             // of what is planned

  double nodes() const { return static_cast<double>((gpus + device.node - 1) / device.node); }
};

// NAME of an accelerator, or a file; gpus > 0 sets their number otherwise. kUsage naming line and unit.
Cluster load_cluster(const std::string& name_or_file, int64_t gpus = 0);

}  // namespace longhaul::plan
