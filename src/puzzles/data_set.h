// A data set of several tasks and levels: what it holds, and its puzzles in order. Each task's puzzles are
// different under its symmetries over all levels and both splits, of which the one to test on comes first and
// has seeds of its own.
//
//   DataSet set = public_set("hard", 938, 10);
//   make_data_set(set, {.seed = 0, .language = Language::kEnglish}, [&](const MadePuzzle& made,
//       const RecordOf& of) { … });
//
// The same at any number of threads. Memory: the puzzles of one task and level.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "puzzles/calibrate/calibrate.h"
#include "puzzles/level_mixture.h"
#include "puzzles/maker.h"
#include "puzzles/records.h"

namespace longhaul::puzzles {

struct DataSetPart {
  const TaskEntry* task = nullptr;
  KnobValues knobs;
  int64_t level = -1, count = 0, first_index = 0;
  bool validation = false;
};
using DataSet = std::vector<DataSetPart>;

int64_t puzzles_of(const DataSet& set);

// The public sets: "hard" has every task at levels 3 to 7, "easy" the 27 that a model of 7B parameters can
// learn from at levels 0 to 3. `count` and `validation` puzzles of each task, spread evenly over the levels.
DataSet public_set(std::string_view name, int64_t count, int64_t validation);
// As a mixture of levels asks for, `count` of each task.
DataSet mixed_set(const std::vector<const TaskEntry*>& tasks, const LevelMixture& mixture, int64_t count,
                  bool validation);

// `count` puzzles of each task, spread evenly over its band of levels (puzzles/calibrate/calibrate.h). kData,
// naming the file `where`, for a task without a band.
DataSet banded_set(const std::vector<const TaskEntry*>& tasks, const std::map<std::string, LevelBand>& bands,
                   const std::string& where, int64_t count, bool validation);

struct DataSetOptions {
  uint64_t seed = 0;  // below kValidationSeeds
  Language language = Language::kEnglish;
};
void make_data_set(const DataSet& set, const DataSetOptions& options,
                   const std::function<void(const MadePuzzle& made, const RecordOf& of)>& give,
                   const std::function<void(int64_t made)>& progress = {});

}  // namespace longhaul::puzzles
