// Measures the cost of redundant loaders (MegaScale, arXiv 2402.15627 §3.4). The readers of one machine
// that need the same rows of every step (eight tensor-parallel ranks of a replica) read from a disk of a
// chosen speed, once with each rank reading for itself, and once with one rank reading for all through the
// machine's memory (data/order/batch_share.h). The readers run in step, as ranks do; their computing is
// simulated by elapsed time. The disk serves one read at a time.
//
// Different replicas read different rows, so one cannot read for another: the bytes fall by the number of
// ranks in a replica, not by that of ranks on the machine.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "observe/table.h"

namespace longhaul::bench {

struct LoaderRequest {
  int64_t readers = 8, steps = 20;
  double step_s = 0.02;  // computing time of a step
  double read = 0.25;    // the share of step_s that the disk needs for one reader's batch
};

struct LoaderRow {
  bool shared = false;
  double bytes = 0;  // bytes of tokens that were read from the disk
  // Waiting time at the beginning of a step, of the reader that waited longest; median over the steps after
  // the first.
  double stall_s = 0;
  double wall_s = 0;          // time of all steps
  bool same_batches = false;  // every reader got in every step the batch that a single loader gives
};

std::vector<LoaderRow> measure_loader(const LoaderRequest& request);  // two rows: without sharing, with it

nlohmann::ordered_json to_json(const LoaderRequest& request, const LoaderRow& row);
observe::Table table_of(const LoaderRequest& request, const std::vector<LoaderRow>& rows);

}  // namespace longhaul::bench
