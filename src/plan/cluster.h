// Cluster: the hardware for a plan: an accelerator of the table (hardware.h), their number, the share of
// their limits that kernels reach, the failure rate of nodes, and the price of an hour. It is given by name
// (that of an accelerator, with defaults) or by a TOML file:
//
//   version = 1
//   accelerator = "h100"      # its row; any value of it can be overridden
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

// Efficiency: the share of the data sheet that kernels reach. products, memory and layer_s trade off against
// each other and are not measurements of their own (docs/guides/plan.md).
struct Efficiency {
  double products = 0.76;   // share of the peak in matrix products
  double memory = 0.6;      // share of the memory's rate in elementwise operators
  double layer_s = 700e-6;  // launching and waiting, per layer and direction
  std::string source;
  double message_s = 10e-6;  // latency of a collective call on the fast link; twice that over the network
  // Share of the peak in attention that stores no scores, in both passes; 0: as products.
  double attention = 0;
  double recurrence = 0;  // share of the peak in linear recurrences; 0: as products
  // Fixed time of a step: its data, updates of small tensors, agreement between ranks, records.
  double step_s = 0;
  // Time for which a device waits at each message of the pipeline, until all launched work is done.
  double stop_s = 0;
  // Exchanges reach a share of a link's rate that depends on their size (SimAI's measurements).
  bool by_size = true;
};

struct Cluster {
  std::string name;
  Accelerator device;
  Efficiency efficiency;
  int64_t gpus = 8;
  double host_rate = 25.6e9;  // bytes/s to the host's memory: PCIe 4 × 16, nominal × 0.8
  // Bytes/s between a rank and the file of train.offload: a node's disks are shared by its ranks; the value
  // is our guess.
  double file_rate = 2e9;
  double failures_per_node_day = 3.79e-3;  // Llama 3: 419 interruptions of 2,048 nodes in 54 days
  // From a failure to the next step: MegaScale's detection under 10 min and catch-up under 15 min.
  double restart_s = 900;
  double checkpoint_s = 10;       // time for which training is blocked by a checkpoint
  double price_per_gpu_hour = 0;  // 0: unknown
  double reserved_bytes = 2e9;    // of each device, for driver and communicators
  double fragmentation = 0.05;    // fraction of the planned memory

  double nodes() const { return static_cast<double>((gpus + device.node - 1) / device.node); }
};

// Loads an accelerator by NAME, or a file; gpus > 0 overrides their number. kUsage naming line and unit.
Cluster load_cluster(const std::string& name_or_file, int64_t gpus = 0);

}  // namespace longhaul::plan
