// From a task's entry to puzzles of a data set. A puzzle is a pure function of (task, version, knobs, seed,
// index): its attempts follow each other until one succeeds, and its solution is given to the verifier before
// anybody sees it.
//
//   const std::vector<MadePuzzle> made = make_puzzles({.task = &task, .knobs = at_level(task.knobs, 4),
//       .seed = 7, .count = 1000});
//
// make_puzzles() leaves out what is one puzzle with an earlier one under the task's symmetries and takes the
// next index in its place, so that the indexes of a data set may have gaps. Nothing depends on the number of
// threads. puzzles/data_set.h puts several tasks and levels together.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_set>
#include <vector>

#include "puzzles/task.h"

namespace longhaul::puzzles {

// Seeds of people are below this; a split that models are tested on has its own seeds, which no training
// split can have.
inline constexpr uint64_t kValidationSeeds = uint64_t{1} << 63;

struct MadePuzzle {
  Puzzle puzzle;
  int64_t index = 0, attempts = 0;  // attempts: 1, where the first succeeded
  uint64_t hash = 0;                // of the canonical form
};

// None: a thousand attempts failed, so there is no such puzzle (never a weaker one in its place).
std::optional<MadePuzzle> make_puzzle(const TaskEntry& task, const KnobValues& knobs, uint64_t seed,
                                      int64_t index);

struct MakeRequest {
  const TaskEntry* task = nullptr;
  KnobValues knobs;
  uint64_t seed = 0;
  int64_t count = 1;
  int64_t first_index = 0;
};
// Canonical forms of one task that a data set has already, as hashes.
using KnownPuzzles = std::unordered_set<uint64_t>;
// kUsage where the knobs give fewer different puzzles than asked for. `progress` hears how many are made.
// `known`: what must not come again, to which the made ones are added.
std::vector<MadePuzzle> make_puzzles(const MakeRequest& request, KnownPuzzles& known,
                                     const std::function<void(int64_t made)>& progress = {});
std::vector<MadePuzzle> make_puzzles(const MakeRequest& request,
                                     const std::function<void(int64_t made)>& progress = {});

}  // namespace longhaul::puzzles
