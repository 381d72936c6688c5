// Which levels of a task suit a model: puzzles of each level, several answers to each, and from the shares
// that are accepted a band of levels.
//
//   upper   the hardest level whose pass@k is at least 0.1: what a strong model can still do
//   lower   the easiest level whose pass rate is above 0 and at most 0.5: what is not too easy
//
// Source: the calibration of SynLogic (2505.19641, §3); docs/puzzles.md#levels-for-a-model. Each finished
// puzzle is written into a journal at once, so that a calibration that was killed goes on where it stood.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "puzzles/grade/pass_rate.h"
#include "puzzles/records.h"

namespace longhaul::puzzles {

// All answers of the model to one prompt; answer i is drawn with seed + i. Throws where the model cannot be
// asked. Called by several threads where CalibrateSettings::at_once says so.
using AskModel =
    std::function<std::vector<std::string>(const std::string& prompt, int64_t answers, uint64_t seed)>;

struct CalibrateSettings {
  std::vector<const TaskEntry*> tasks;
  int64_t easiest = 0, hardest = kHardestLevel;
  int64_t puzzles = 20, answers = 10;  // of each level; to each puzzle
  uint64_t seed = 0;                   // below kValidationSeeds: puzzles are those of validation
  Language language = Language::kEnglish;
  int64_t at_once = 1;           // puzzles that are asked at the same time
  nlohmann::ordered_json model;  // what describes the model and how it draws; another one has another journal
  std::filesystem::path journal;
};

struct LevelResult {
  int64_t level = 0;
  std::vector<Tried> puzzles;
  int64_t strict_format = 0;  // answers
  int64_t answers() const;
};
struct TaskLevels {
  std::vector<LevelResult> levels;  // rising
  std::optional<int64_t> lower, upper;
};
using Calibration = std::map<std::string, TaskLevels>;

// Tells `progress` of each puzzle that is finished, those of the journal included.
Calibration calibrate(const CalibrateSettings& settings, const AskModel& ask,
                      const std::function<void()>& progress = {});

// The band of a task, from its levels in rising order.
std::optional<int64_t> upper_level(const std::vector<LevelResult>& levels);
std::optional<int64_t> lower_level(const std::vector<LevelResult>& levels);

// As it is written, and as `puzzles generate --levels` reads it.
nlohmann::ordered_json calibration_json(const CalibrateSettings& settings, const Calibration& calibration);
struct LevelBand {
  int64_t lower = 0, upper = 0;
};
std::map<std::string, LevelBand> read_bands(const std::filesystem::path& file);  // of the tasks that have one

// The upper levels of another calibration, of a stronger model, in place of a calibration's own.
void take_upper_levels(Calibration& calibration, const std::filesystem::path& file);

// What is said before a puzzle, so that the answer can be found.
std::string asked_prompt(const std::string& question, Language language);

}  // namespace longhaul::puzzles
