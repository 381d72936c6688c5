// Runs ranks as processes of this machine, for a command that starts this program once for each rank and
// waits until all have ended: `prove`, `bench outer --processes` and `evaluate --ranks`. The ranks meet as
// those of `launch` do (join_world).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace longhaul::comm {

struct RankProcesses {
  int64_t size = 1;
  std::vector<std::string> words;  // the arguments of each rank, after the program's name
  int64_t threads = 1;             // compute threads of each rank
  std::filesystem::path folder;    // holds the output of each rank: rank-N.log
  bool first_speaks = false;       // rank 0 writes to this process's streams instead
};

struct RankFailure {
  int64_t rank = 0;
  int status = 0;    // exit code, or 128 + signal
  std::string said;  // the rank's output; empty: it wrote to this process's streams
};

// The failure of the rank that failed by itself, or else of the first one that failed.
std::optional<RankFailure> failure_of(const RankProcesses& processes);
// Throws error 69, with the output of the failed rank, when one fails.
void require_all_end_well(const RankProcesses& processes);

std::vector<std::string> own_words();  // the arguments of this process, after the program's name

}  // namespace longhaul::comm
