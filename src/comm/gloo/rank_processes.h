// Ranks that are processes of this machine, for a command that starts this program once a rank and waits until all have ended: `prove`, `bench outer --processes` and
// `evaluate --ranks`. They meet as ranks of `launch` do (join_world).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace longhaul::comm {

struct RankProcesses {
  int64_t size = 1;
  std::vector<std::string> words;  // of each, behind the program's name
  int64_t threads = 1;             // that each computes with
  std::filesystem::path folder;    // what each says lies there: rank-N.log
  bool first_speaks = false;       // but not what rank 0 says: it has this process's streams
};

struct RankFailure {
  int64_t rank = 0;
  int status = 0;    // exit code, or 128 + signal
  std::string said;  // empty: it has said so to this process's streams
};

// Of the rank that failed by itself, or the first one.
std::optional<RankFailure> failure_of(const RankProcesses& processes);
// Error 69, with what that rank has said, where one ends badly.
void require_all_end_well(const RankProcesses& processes);

std::vector<std::string> own_words();  // of this process, behind the program's name

}  // namespace longhaul::comm
