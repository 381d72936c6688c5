#include "puzzles/calibrate/calibrate.h"

#include <atomic>
#include <cmath>
#include <exception>
#include <memory>

#include "base/error.h"
#include "base/files/file.h"
#include "base/log.h"
#include "base/process/signals.h"
#include "base/text/json.h"
#include "base/text/path_text.h"
#include "base/threads/worker.h"
#include "puzzles/calibrate/journal.h"
#include "puzzles/engine/answers/answer.h"
#include "puzzles/tasks.h"

namespace longhaul::puzzles {
namespace {

constexpr double kStillSolved = 0.1, kTooEasy = 0.5;
constexpr JsonRules kBandRules = {.code = ExitCode::kData,
                                  .what = "unusable file of levels",
                                  .hint = "puzzles calibrate writes such files"};

// One level of one task, whose puzzles come in the order of their indexes.
struct Job {
  const TaskEntry* task = nullptr;
  int64_t level = 0, index = 0;
  PuzzleName name() const { return {std::string(task->key), level, index}; }
};

nlohmann::ordered_json settings_json(const CalibrateSettings& settings) {
  nlohmann::ordered_json tasks = nlohmann::ordered_json::object();
  for (const TaskEntry* task : settings.tasks) tasks[std::string(task->key)] = task->version;
  return {{"model", settings.model},
          {"tasks", tasks},
          {"levels", {settings.easiest, settings.hardest}},
          {"puzzles", settings.puzzles},
          {"answers", settings.answers},
          {"seed", settings.seed},
          {"lang", name_of(settings.language)}};
}

// The puzzle of an index; where it has none, the next index that no other one uses.
MadePuzzle puzzle_of(const Job& job, const CalibrateSettings& settings) {
  const KnobValues knobs = at_level(job.task->knobs, job.level);
  for (int64_t index = job.index; index < job.index + 100 * settings.puzzles; index += settings.puzzles) {
    if (auto made = make_puzzle(*job.task, knobs, settings.seed | kValidationSeeds, index))
      return std::move(*made);
  }
  throw Error({.code = ExitCode::kUsage,
               .what = fmt::format("{} has no puzzles at level {}", job.task->key, job.level),
               .hint = "leave the task or the level out: --levels"});
}

FinishedPuzzle tried(const Job& job, const CalibrateSettings& settings, const AskModel& ask) {
  const MadePuzzle made = puzzle_of(job, settings);
  const Puzzle puzzle = puzzle_in(*job.task, made.puzzle, settings.language);
  const ReadRecord record{job.task, puzzle.given};
  const std::string question = job.task->prompt(puzzle.given, settings.language, template_of(made.index));
  const auto first_seed = static_cast<uint64_t>(job.index * settings.answers);
  FinishedPuzzle result;
  for (const std::string& response :
       ask(asked_prompt(question, settings.language), settings.answers, first_seed)) {
    ++result.answers;
    result.accepted += verdict_on(record, response).accepted() ? 1 : 0;
    result.strict_format += has_strict_format(response) ? 1 : 0;
  }
  LONGHAUL_ASSERT(result.answers == settings.answers, "{} answers", result.answers);
  return result;
}

void tell_level(const Job& job, const LevelResult& level) {
  const Estimate rate = average(level.puzzles);
  log_info("{} level {}: pass rate {:.2f} ± {:.2f}, pass@{} {:.2f}", job.task->key, job.level, rate.mean,
           rate.error, level.puzzles.front().answers,
           pass_at_k(level.puzzles, level.puzzles.front().answers).mean);
}

nlohmann::ordered_json json_of(const Estimate& estimate) {
  return {estimate.mean,
          std::isnan(estimate.error) ? nlohmann::ordered_json() : nlohmann::ordered_json(estimate.error)};
}

// Runs this in so many threads beside each other, or in this one; the first of their exceptions is thrown
// when all have ended.
void run_at_once(int64_t threads, const std::function<void()>& work) {
  if (threads == 1) return work();
  std::vector<std::unique_ptr<Worker>> workers;
  for (int64_t i = 0; i < threads; ++i) workers.push_back(std::make_unique<Worker>("ask model"));
  for (auto& worker : workers) worker->post(work);
  std::exception_ptr first;
  for (auto& worker : workers) {
    try {
      worker->wait();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace

int64_t LevelResult::answers() const {
  int64_t all = 0;
  for (const Tried& puzzle : puzzles) all += puzzle.answers;
  return all;
}

std::optional<int64_t> upper_level(const std::vector<LevelResult>& levels) {
  std::optional<int64_t> upper;
  for (const LevelResult& level : levels) {
    if (pass_at_k(level.puzzles, level.puzzles.front().answers).mean >= kStillSolved) upper = level.level;
  }
  return upper;
}

std::optional<int64_t> lower_level(const std::vector<LevelResult>& levels) {
  for (const LevelResult& level : levels) {
    const double rate = average(level.puzzles).mean;
    if (rate > 0 && rate <= kTooEasy) return level.level;
  }
  return std::nullopt;
}

std::string asked_prompt(const std::string& question, Language language) {
  if (language == Language::kChinese)
    return "请一步一步思考，把思考过程写在 <think> 和 </think> 之间，再把最终答案写在 <answer> 和 </answer> "
           "之间。\n\n" +
           question;
  return "Think step by step between <think> and </think>. Then write the final answer between <answer> and "
         "</answer>.\n\n" +
         question;
}

Calibration calibrate(const CalibrateSettings& settings, const AskModel& ask,
                      const std::function<void()>& progress) {
  std::vector<Job> jobs;
  for (const TaskEntry* task : settings.tasks) {
    for (int64_t level = settings.easiest; level <= settings.hardest; ++level) {
      for (int64_t index = 0; index < settings.puzzles; ++index) jobs.push_back({task, level, index});
    }
  }
  CalibrationJournal journal(settings.journal, settings_json(settings));
  std::vector<FinishedPuzzle> results(jobs.size());
  std::vector<size_t> open;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const auto found = journal.finished().find(jobs[i].name());
    if (found == journal.finished().end()) {
      open.push_back(i);
      continue;
    }
    results[i] = found->second;
    if (progress) progress();
  }
  std::atomic<size_t> next = 0;
  std::atomic<bool> failed = false;  // then no thread begins another puzzle
  const auto work = [&] {
    try {
      for (size_t at = next++; at < open.size() && !failed; at = next++) {
        throw_if_stop_requested("calibrating; the same command goes on");
        const size_t i = open[at];
        results[i] = tried(jobs[i], settings, ask);
        journal.add(jobs[i].name(), results[i]);
        if (progress) progress();
      }
    } catch (...) {
      failed = true;
      throw;
    }
  };
  run_at_once(settings.at_once, work);
  Calibration all;
  for (size_t i = 0; i < jobs.size(); ++i) {
    TaskLevels& of_task = all[std::string(jobs[i].task->key)];
    if (jobs[i].index == 0) of_task.levels.push_back({.level = jobs[i].level});
    LevelResult& level = of_task.levels.back();
    level.puzzles.push_back({results[i].answers, results[i].accepted});
    level.strict_format += results[i].strict_format;
    if (jobs[i].index + 1 == settings.puzzles) tell_level(jobs[i], level);
  }
  for (auto& [key, of_task] : all) {
    of_task.lower = lower_level(of_task.levels);
    of_task.upper = upper_level(of_task.levels);
  }
  return all;
}

nlohmann::ordered_json calibration_json(const CalibrateSettings& settings, const Calibration& calibration) {
  nlohmann::ordered_json tasks = nlohmann::ordered_json::object();
  for (const auto& [key, of_task] : calibration) {
    nlohmann::ordered_json levels = nlohmann::ordered_json::array();
    for (const LevelResult& level : of_task.levels) {
      const auto answers = level.puzzles.front().answers;
      levels.push_back({{"level", level.level},
                        {"pass_rate", json_of(average(level.puzzles))},
                        {"pass_at_k", json_of(pass_at_k(level.puzzles, answers))},
                        {"strict_format",
                         static_cast<double>(level.strict_format) / static_cast<double>(level.answers())}});
    }
    tasks[key] = {
        {"lower", of_task.lower ? nlohmann::ordered_json(*of_task.lower) : nlohmann::ordered_json()},
        {"upper", of_task.upper ? nlohmann::ordered_json(*of_task.upper) : nlohmann::ordered_json()},
        {"levels", levels}};
  }
  return {{"settings", settings_json(settings)}, {"k", settings.answers}, {"tasks", tasks}};
}

std::map<std::string, LevelBand> read_bands(const std::filesystem::path& file) {
  const std::string where = text_of_path(file);
  const nlohmann::json json = parse_json(read_text(file), where, kBandRules);
  const JsonView tasks = JsonView(json, where + ":", kBandRules).at("tasks");
  tasks.require(tasks.value().is_object(), "an object");
  std::map<std::string, LevelBand> bands;
  for (const auto& [key, of_task] : tasks.value().items()) {
    const JsonView view = tasks.entry(key, of_task);
    if (!view.has("lower") || !view.has("upper")) continue;
    const LevelBand band{view.at("lower").integer(0, kHardestLevel),
                         view.at("upper").integer(0, kHardestLevel)};
    if (band.lower <= band.upper) bands[std::string(task_named(key).key)] = band;
  }
  return bands;
}

void take_upper_levels(Calibration& calibration, const std::filesystem::path& file) {
  const std::string where = text_of_path(file);
  const nlohmann::json json = parse_json(read_text(file), where, kBandRules);
  const JsonView tasks = JsonView(json, where + ":", kBandRules).at("tasks");
  for (auto& [key, of_task] : calibration) {
    const JsonView other = tasks.at(key);
    of_task.upper =
        other.has("upper") ? std::optional(other.at("upper").integer(0, kHardestLevel)) : std::nullopt;
  }
}

}  // namespace longhaul::puzzles
