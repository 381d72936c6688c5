// What redundant loaders cost (MegaScale, arXiv 2402.15627 §3.4): the readers of one machine that want the same rows of every step (eight tensor ranks
// of a replica), over a disk that is as slow as wanted, each reading for itself beside one that reads for all through the machine's memory
// (data/order/batch_share.h). Readers go in step, as ranks do; what they compute is time that passes. The disk takes one read at a time.
//
// Replicas read other rows: there is nothing that one of them could read for another, so bytes fall by the ranks of a replica and not by those of
// the machine.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "observe/table.h"

namespace longhaul::bench {

struct LoaderRequest {
  int64_t readers = 8, steps = 20;
  double step_s = 0.02;  // that a step computes
  double read = 0.25;    // of that, what the disk takes for one reader's batch
};

struct LoaderRow {
  bool shared = false;
  double bytes = 0;           // of tokens, read from the disk
  double stall_s = 0;         // at the beginning of a step, of the reader that waited longest; median over the steps behind the first
  double wall_s = 0;          // of all steps
  bool same_batches = false;  // every reader got, of every step, what a loader alone gives
};

std::vector<LoaderRow> measure_loader(const LoaderRequest& request);  // without sharing, with it

nlohmann::ordered_json to_json(const LoaderRequest& request, const LoaderRow& row);
observe::Table table_of(const LoaderRequest& request, const std::vector<LoaderRow>& rows);

}  // namespace longhaul::bench
