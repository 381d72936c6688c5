#include "bench/puzzles.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/machine/machine.h"
#include "base/machine/processor_time.h"
#include "base/memory/peak_memory.h"
#include "base/process/loaded_library.h"
#include "base/process/process.h"
#include "base/process/signals.h"
#include "puzzles/maker.h"
#include "puzzles/records.h"
#include "puzzles/tasks.h"

namespace longhaul::bench {
namespace {

namespace fs = std::filesystem;
// that answers are judged for at least, so that a clock's steps do not matter
constexpr double kJudgingNs = 20e6;

struct PeerRates {
  double made = 0, judged = 0;
};

double rate_of(int64_t count, int64_t nanoseconds) {
  return static_cast<double>(count) * 1e9 / static_cast<double>(nanoseconds);
}

double percentile(std::vector<double>& sorted, double share) {
  return sorted[std::min(sorted.size() - 1, static_cast<size_t>(share * static_cast<double>(sorted.size())))];
}

// The stored answer, and one with its first digit or letter changed.
std::vector<std::string> answers_to(const puzzles::Puzzle& puzzle) {
  std::string changed = puzzle.solution;
  const auto at =
      std::ranges::find_if(changed, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; });
  if (at != changed.end()) *at = *at == '1' ? '2' : '1';
  return {puzzle.solution, changed};
}

void judge(const puzzles::TaskEntry& task, const std::vector<puzzles::Puzzle>& made, PuzzleRate& rate) {
  std::vector<std::vector<std::string>> answers;
  for (const puzzles::Puzzle& puzzle : made) answers.push_back(answers_to(puzzle));
  std::vector<double> each_us;
  const int64_t begin = thread_processor_ns();
  int64_t judged = 0, spent = 0;
  while (static_cast<double>(spent) < kJudgingNs) {
    for (size_t i = 0; i < made.size(); ++i) {
      for (const std::string& answer : answers[i]) {
        const auto from = std::chrono::steady_clock::now();
        const puzzles::Verdict verdict = task.verify(made[i].given, answer);
        each_us.push_back(
            std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - from).count());
        LONGHAUL_ASSERT(&answer != &answers[i][0] || verdict.accepted(), "{} refuses its own solution",
                        task.key);
        ++judged;
      }
    }
    spent = thread_processor_ns() - begin;
  }
  rate.judged_per_s = rate_of(judged, spent);
  std::ranges::sort(each_us);
  rate.judged_p50_us = percentile(each_us, 0.5);
  rate.judged_p99_us = percentile(each_us, 0.99);
}

PuzzleRate measured(const PuzzleSetting& setting, int64_t count) {
  const puzzles::TaskEntry& task = puzzles::task_named(setting.task);
  const puzzles::KnobValues knobs =
      puzzles::with_changes(task.knobs, puzzles::at_level(task.knobs, setting.level), setting.changes);
  PuzzleRate rate{.setting = setting};
  const bool peak_known = reset_peak_resident_bytes() >= 0;
  // The first puzzles of a task fill its tables, once in a process.
  for (int64_t index = 0; index < 3; ++index) puzzles::make_puzzle(task, knobs, 1, index);
  std::vector<puzzles::Puzzle> made;
  const int64_t begin = thread_processor_ns();
  for (int64_t index = 0; index < count; ++index) {
    throw_if_stop_requested("measuring puzzles");
    std::optional<puzzles::MadePuzzle> one = puzzles::make_puzzle(task, knobs, 0, index);
    if (!one) continue;
    task.prompt(one->puzzle.given, puzzles::Language::kEnglish, puzzles::template_of(index));
    made.push_back(std::move(one->puzzle));
  }
  const int64_t spent = thread_processor_ns() - begin;
  rate.puzzles = static_cast<int64_t>(made.size());
  if (made.empty())
    throw Error({.code = ExitCode::kUsage,
                 .what = fmt::format("{} makes no puzzle at the setting that is measured", task.key)});
  rate.made_per_s = rate_of(rate.puzzles, std::max(spent, int64_t{1}));
  judge(task, made, rate);
  rate.peak_mib = peak_known ? static_cast<double>(peak_resident_bytes()) / (1 << 20) : -1;
  return rate;
}

// The folder of the sources: this one, or that in which the program was built.
fs::path peer_script() {
  const fs::path program = file_that_holds(reinterpret_cast<const void*>(&peer_script));
  const fs::path here = "bench/peers/puzzles.py";
  for (const fs::path& folder : {fs::current_path(), program.parent_path().parent_path().parent_path()}) {
    if (fs::exists(folder / here)) return folder / here;
  }
  throw Error({.code = ExitCode::kUsage,
               .what = "the peer's script is not there",
               .expected = here.string(),
               .where = fs::current_path().string(),
               .hint = "call this in the folder of Longhaul's sources"});
}

// scripts/peer-python finds or makes a Python with the packages, and runs the script.
std::map<std::string, PeerRates> measured_peers(const std::vector<std::string>& names, int64_t count) {
  const fs::path script = peer_script(),
                 python = script.parent_path().parent_path().parent_path() / "scripts/peer-python";
  std::vector<std::string> command = {python.string(), script.string(), "--count", std::to_string(count)};
  command.insert(command.end(), names.begin(), names.end());
  const ProcessResult result = run_process(command, {}, 3600);
  if (result.status != 0)
    throw Error({.code = ExitCode::kUsage,
                 .what = "the peer's generators did not run",
                 .found = result.errors.substr(result.errors.size() > 600 ? result.errors.size() - 600 : 0),
                 .where = script.string(),
                 .hint = "scripts/peer-python says what its Python lacks"});
  std::map<std::string, PeerRates> rates;
  const nlohmann::json measured = nlohmann::json::parse(result.output);
  for (const auto& [name, rate] : measured.items())
    rates[name] = {rate.at("made_per_s").get<double>(), rate.at("judged_per_s").get<double>()};
  return rates;
}

std::string number_text(double value) {
  return value >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

}  // namespace

std::vector<PuzzleRate> measure_puzzles(const PuzzleRatesRequest& request,
                                        const std::function<void()>& advance) {
  for (const std::string& name : request.tasks) puzzles::task_named(name);
  std::vector<PuzzleRate> rates;
  std::vector<std::string> peers;
  for (const PuzzleSetting& setting : puzzle_settings()) {
    if (!request.tasks.empty() && std::ranges::find(request.tasks, setting.task) == request.tasks.end())
      continue;
    rates.push_back(measured(setting, request.count));
    if (!setting.peer.empty()) peers.push_back(setting.peer);
    if (advance) advance();
  }
  if (!request.peer || peers.empty()) return rates;
  const std::map<std::string, PeerRates> theirs = measured_peers(peers, request.count);
  for (PuzzleRate& rate : rates) {
    if (const auto found = theirs.find(rate.setting.peer); found != theirs.end())
      rate.peer_made_per_s = found->second.made, rate.peer_judged_per_s = found->second.judged;
  }
  return rates;
}

double geometric_mean_of_ratios(const std::vector<PuzzleRate>& rates) {
  double sum = 0;
  int64_t count = 0;
  for (const PuzzleRate& rate : rates) {
    if (rate.peer_made_per_s <= 0) continue;
    sum += std::log(rate.made_per_s / rate.peer_made_per_s);
    ++count;
  }
  return count == 0 ? 0 : std::exp(sum / static_cast<double>(count));
}

nlohmann::ordered_json to_json(const PuzzleRate& rate) {
  nlohmann::ordered_json json = {{"name", rate.setting.task},
                                 {"setting", rate.setting.says},
                                 {"level", rate.setting.level},
                                 {"knobs", rate.setting.changes},
                                 {"puzzles", rate.puzzles},
                                 {"made_per_s", rate.made_per_s},
                                 {"goal_per_s", rate.setting.goal},
                                 {"judged_per_s", rate.judged_per_s},
                                 {"judged_p50_us", rate.judged_p50_us},
                                 {"judged_p99_us", rate.judged_p99_us},
                                 {"peak_mib", rate.peak_mib}};
  if (rate.peer_made_per_s > 0) {
    json["peer"] = "reasoning-gym " + rate.setting.peer;
    json["peer_made_per_s"] = rate.peer_made_per_s;
    json["peer_judged_per_s"] = rate.peer_judged_per_s;
    json["made_ratio"] = rate.made_per_s / rate.peer_made_per_s;
  }
  return json;
}

observe::Table table_of(const std::vector<PuzzleRate>& rates) {
  using observe::Align;
  const bool peer = geometric_mean_of_ratios(rates) > 0;
  std::vector<observe::Column> columns = {{"task"},
                                          {"setting"},
                                          {"made/s", Align::kRight},
                                          {"goal", Align::kRight},
                                          {"judged/s", Align::kRight},
                                          {"p50 us", Align::kRight},
                                          {"p99 us", Align::kRight},
                                          {"peak MiB", Align::kRight}};
  if (peer) columns.insert(columns.end(), {{"peer made/s", Align::kRight}, {"ratio", Align::kRight}});
  observe::Table table("puzzles, a core", columns);
  for (const PuzzleRate& rate : rates) {
    std::vector<std::string> row = {
        rate.setting.task,
        rate.setting.says.empty() ? fmt::format("level {}", rate.setting.level) : rate.setting.says,
        number_text(rate.made_per_s),
        rate.setting.goal > 0 ? number_text(rate.setting.goal) : "-",
        number_text(rate.judged_per_s),
        fmt::format("{:.2f}", rate.judged_p50_us),
        fmt::format("{:.2f}", rate.judged_p99_us),
        rate.peak_mib < 0 ? "-" : fmt::format("{:.0f}", rate.peak_mib)};
    if (peer) {
      const bool has = rate.peer_made_per_s > 0;
      row.push_back(has ? number_text(rate.peer_made_per_s) : "-");
      row.push_back(has ? number_text(rate.made_per_s / rate.peer_made_per_s) : "-");
    }
    table.row(row);
  }
  return table;
}

}  // namespace longhaul::bench
