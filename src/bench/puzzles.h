// How fast puzzles are made, proofs and prompts included, and answers to them judged: a core, task by task,
// beside goals, and beside other people's generators of the same tasks (bench/peers/puzzles.py). Rates count
// processor time of one thread, so that what else runs on the machine does not change them much.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "observe/table.h"
#include "puzzles/engine/knobs.h"

namespace longhaul::bench {

// One setting of a task that is measured, with the rate a core that it should have; 0: no goal is set.
struct PuzzleSetting {
  std::string task, says;
  int64_t level = 3;
  std::map<std::string, int64_t, std::less<>> changes;  // of the level's knobs
  double goal = 0;                                      // puzzles a second
  // the name of the same setting in bench/peers/puzzles.py; empty: it has none
  std::string peer;
};

// Of every task at least one: those with a goal, and level 3 of others.
std::vector<PuzzleSetting> puzzle_settings();

struct PuzzleRate {
  PuzzleSetting setting;
  int64_t puzzles = 0;
  double made_per_s = 0, judged_per_s = 0;
  // of one answer, right and wrong ones in turn, on the clock
  double judged_p50_us = 0, judged_p99_us = 0;
  double peak_mib = 0;                                // of the process while it measured this; -1: not known
  double peer_made_per_s = 0, peer_judged_per_s = 0;  // 0: no peer
};

struct PuzzleRatesRequest {
  int64_t count = 200;             // puzzles of each setting
  std::vector<std::string> tasks;  // empty: all
  bool peer = false;
};
// kUsage: no such task; no Python with the peer's packages (the error says what to type).
std::vector<PuzzleRate> measure_puzzles(const PuzzleRatesRequest& request,
                                        const std::function<void()>& advance = {});

// The geometric mean of ours over theirs, of the settings that have a peer; 0: none has.
double geometric_mean_of_ratios(const std::vector<PuzzleRate>& rates);

nlohmann::ordered_json to_json(const PuzzleRate& rate);
observe::Table table_of(const std::vector<PuzzleRate>& rates);

}  // namespace longhaul::bench
