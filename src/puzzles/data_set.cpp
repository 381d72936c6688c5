#include "puzzles/data_set.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "puzzles/tasks.h"

namespace longhaul::puzzles {
namespace {

// Tasks that are in the harder public set alone.
constexpr std::string_view kHardAlone[] = {"arrow_maze",           "goods_exchange", "kukurasu",
                                           "minesweeper",          "norinori",       "object_counting",
                                           "space_reasoning_tree", "wordscapes"};

// Where a set has several levels, their indexes are apart, so that two levels never draw the same numbers.
DataSetPart part_of_level(const TaskEntry& task, int64_t level, int64_t count, bool validation) {
  return {&task, at_level(task.knobs, level), level, count, level * 1'000'000'000, validation};
}

void add_levels(DataSet& set, const TaskEntry& task, int64_t least, int64_t most, int64_t count,
                bool validation) {
  const int64_t levels = most - least + 1;
  for (int64_t level = least; level <= most; ++level) {
    const int64_t share = count / levels + (level - least < count % levels ? 1 : 0);
    if (share > 0) set.push_back(part_of_level(task, level, share, validation));
  }
}

}  // namespace

int64_t puzzles_of(const DataSet& set) {
  int64_t count = 0;
  for (const DataSetPart& part : set) count += part.count;
  return count;
}

DataSet public_set(std::string_view name, int64_t count, int64_t validation) {
  LONGHAUL_ASSERT(name == "hard" || name == "easy", "set {}", name);
  const bool hard = name == "hard";
  DataSet set;
  for (const TaskEntry* task : tasks()) {
    if (!hard && std::ranges::find(kHardAlone, task->key) != std::end(kHardAlone)) continue;
    add_levels(set, *task, hard ? 3 : 0, hard ? 7 : 3, validation, true);
    add_levels(set, *task, hard ? 3 : 0, hard ? 7 : 3, count, false);
  }
  return set;
}

DataSet mixed_set(const std::vector<const TaskEntry*>& tasks, const LevelMixture& mixture, int64_t count,
                  bool validation) {
  DataSet set;
  for (const TaskEntry* task : tasks) {
    const std::vector<int64_t> counts = mixture.counts(task->key, count);
    for (size_t level = 0; level < counts.size(); ++level) {
      if (counts[level] > 0)
        set.push_back(part_of_level(*task, static_cast<int64_t>(level), counts[level], validation));
    }
  }
  return set;
}

DataSet banded_set(const std::vector<const TaskEntry*>& tasks, const std::map<std::string, LevelBand>& bands,
                   const std::string& where, int64_t count, bool validation) {
  DataSet set;
  for (const TaskEntry* task : tasks) {
    const auto found = bands.find(std::string(task->key));
    if (found == bands.end())
      throw Error({.code = ExitCode::kData,
                   .what = fmt::format("{} has no band of levels", task->key),
                   .expected = "\"lower\" and \"upper\", the lower one not above",
                   .where = where,
                   .hint = "leave the task out, or make its puzzles with --level"});
    add_levels(set, *task, found->second.lower, found->second.upper, count, validation);
  }
  return set;
}

void make_data_set(const DataSet& set, const DataSetOptions& options,
                   const std::function<void(const MadePuzzle& made, const RecordOf& of)>& give,
                   const std::function<void(int64_t made)>& progress) {
  std::map<const TaskEntry*, KnownPuzzles> known;
  int64_t before = 0;
  for (const DataSetPart& part : set) {
    const uint64_t seed = options.seed | (part.validation ? kValidationSeeds : 0);
    const RecordOf of{part.task, part.knobs, part.level, seed, options.language};
    const MakeRequest request{part.task, part.knobs, seed, part.count, part.first_index};
    for (const MadePuzzle& made : make_puzzles(request, known[part.task], [&](int64_t so_far) {
           if (progress) progress(before + so_far);
         }))
      give(made, of);
    before += part.count;
  }
}

}  // namespace longhaul::puzzles
