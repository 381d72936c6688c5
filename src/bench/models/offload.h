// `longhaul bench offload`: passes of one model with what its layers keep in memory, made again, or on the
// host behind a link of a stated rate, in turns in one run, and one more in a block of planned addresses
// (tensor/replay_arena.h). On a CPU the host is a second tier in the same memory
// (kernels/saved/host_offload.h): the table says what hides behind compute, and how much of the first tier
// is left. With train.offload_memory the host has that much, and a file in train.offload_folder what exceeds
// it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "observe/table.h"

namespace longhaul::bench {

struct OffloadRequest {
  std::string preset = "hybrid-bench";
  int64_t sequence = 4096;   // tokens of a pass, one document
  int64_t rounds = 3;        // timed passes of each way, after three that are not
  double link_gb_per_s = 1;  // of each direction
  uint64_t seed = 0;
  std::vector<std::string> overrides{};  // "model.layers=8"
};

struct OffloadLine {
  std::string way;             // "full", "host, auto"
  double seconds = 0;          // a forward and a backward pass, the median
  double against_none = 0;     // the time of `none` over this one, round by round, the median
  int64_t peak_bytes = 0;      // of activations, without what the host has
  double moved_bytes = 0;      // a pass, to the host
  double waited_s = 0;         // a pass, for copies
  int64_t host_bytes = 0;      // taken there
  double file_bytes = 0;       // a pass, of moved_bytes: to the file behind it
  int64_t block_bytes = 0;     // with planned addresses
  int64_t live_bytes = 0;      // the most of the block that lives at one time
  int64_t missed = 0;          // requests of the last pass that the plan does not have
  bool same_gradients = true;  // as `none`, to the bit
};

std::vector<OffloadLine> bench_offload(const OffloadRequest& request);
observe::Table table_of(const std::vector<OffloadLine>& lines);
nlohmann::ordered_json to_json(const OffloadLine& line);

}  // namespace longhaul::bench
