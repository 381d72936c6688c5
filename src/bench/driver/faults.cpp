#include "bench/driver/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "base/process/fault_point.h"
#include "base/progress.h"
#include "base/statistics.h"
#include "base/text/number.h"
#include "base/threads/worker.h"
#include "bench/driver/drill_judgement.h"
#include "bench/driver/drill_run.h"
#include "bench/models/small_text.h"

namespace longhaul::bench {
namespace {

namespace fs = std::filesystem;

void write_recipe(const fs::path& folder, int64_t ranks, int64_t steps) {
  write_small_text(folder / "text", 20);
  std::ofstream(folder / "recipe.toml") << fmt::format(
      "version = 1\n[model]\nlayers = 2\nhidden = 32\nheads = 2\nkv_heads = 2\nhead_dim = 16\nvocabulary = "
      "257\n"
      "mixers = [\"lightning\", \"softmax\"]\nintermediate = 32\nrotary_dim = 8\n[data]\ntokenizer = "
      "\"bytes\"\nsource = \"{}\"\ncache = \"{}\"\n"
      "[train]\nsteps = {}\ndtype = \"fp32\"\nbatch = {}\nmicro_batch = 1\nsequence = 64\nevaluate_every = "
      "0\ncheckpoint_every = {}\nthreads = 1\nelastic = true\n"
      "[optim]\nschedule = \"constant\"\n[sample]\ntokens = 0\n[observe]\ncompression_baseline = "
      "false\nreport = false\n",
      (folder / "text").string(), (folder / "cache").string(), steps, 2 * ranks, kDrillCheckpointEvery);
}

std::vector<DrillOutcome> one_run(const FaultsRequest& request, const std::set<std::string>& without,
                                  const fs::path& folder, int64_t index, int64_t ranks, int64_t count) {
  const DrillPlan plan = plan_drills(request.seed, index, ranks, count, without);
  write_recipe(folder, ranks, plan.steps);
  const fs::path undisturbed = folder / "undisturbed", run = folder / "run", marks = folder / "marks";
  make_folders(marks);
  if (const auto status = run_drills(folder, undisturbed, ranks, {}, marks, [](const auto&) {});
      status != 0) {
    throw Error({.code = ExitCode::kInternal,
                 .what = "the run without faults failed",
                 .found = fmt::format("exit code {}", status.value_or(-1)),
                 .where = (folder / "undisturbed.log").string()});
  }
  RunJudgement judgement;
  run_drills(folder, run, ranks, plan, marks,
             [&](const std::optional<int>& status) { judgement = judge(status, run, undisturbed, ranks); });
  std::vector<DrillOutcome> outcomes;
  std::set<int64_t> explained;  // generations whose incident names a drill
  for (size_t i = plan.drills.size(); i-- > 0;) {
    const bool done = !fs::exists(DrillPlan::undone_of(marks, i));
    const auto mark = done ? read_fault_mark(DrillPlan::mark_of(marks, i)) : std::nullopt;
    outcomes.push_back(
        outcome_of(plan.drills[i], ranks, mark, mark && explained.contains(mark->generation), judgement));
    const DrillOutcome& outcome = outcomes.back();
    if (mark && outcome.named && !outcome.incident.empty()) explained.insert(mark->generation);
    if (!outcome.good() || !outcome.named) outcomes.back().problem += fmt::format(" ({})", folder.string());
  }
  std::ranges::reverse(outcomes);
  return outcomes;
}

// Runs beside each other, each in a thread of its own: a run mostly waits for time-outs and for processes
// that start.
class Runs {
 public:
  Runs(const FaultsRequest& request, fs::path folder)
      : request_(request), folder_(std::move(folder)), progress_("faults", request.count) {
    for (int64_t planned = 0; planned < request_.count; planned += counts_.back())
      counts_.push_back(std::min(request_.faults_a_run, request_.count - planned));
    outcomes_.resize(counts_.size());
    Worker asking("drills");  // who asks sees mounts of its own from then on
    asking.post([this] { without_ = kinds_not_here(); });
    asking.wait();
  }

  std::vector<DrillOutcome> measure() {
    {
      std::vector<std::unique_ptr<Worker>> workers;
      for (int64_t i = 0; i < std::min(request_.beside, std::ssize(counts_)); ++i) {
        workers.push_back(std::make_unique<Worker>(fmt::format("drills {}", i)));
        workers.back()->post([this] { take_runs(); });
      }
      for (const auto& worker : workers) worker->wait();
    }
    std::vector<DrillOutcome> all;
    for (const auto& of_run : outcomes_) all.insert(all.end(), of_run.begin(), of_run.end());
    return all;
  }

 private:
  void take_runs() {
    for (size_t run = next_++; run < counts_.size(); run = next_++) {
      const int64_t ranks = request_.ranks[run % request_.ranks.size()];
      const fs::path own = folder_ / fmt::format("run-{:03}", run);
      try {
        outcomes_[run] = one_run(request_, without_, own, static_cast<int64_t>(run), ranks, counts_[run]);
      } catch (...) {
        next_ = counts_.size();  // nor does anybody else begin another
        throw;
      }
      const auto as_wanted = [](const DrillOutcome& outcome) { return outcome.good() && outcome.named; };
      if (std::ranges::all_of(outcomes_[run], as_wanted)) fs::remove_all(own);
      const std::lock_guard hold(mutex_);
      // A thousand take hours: what is known stays when the bench is interrupted.
      std::ofstream lines(folder_ / "outcomes.jsonl", std::ios::app);
      for (const DrillOutcome& outcome : outcomes_[run]) lines << to_json(outcome).dump() << "\n";
      progress_.advance(counts_[run]);
    }
  }

  const FaultsRequest& request_;
  fs::path folder_;
  Progress progress_;
  std::set<std::string> without_;  // kinds that cannot be had here
  std::vector<int64_t> counts_;    // faults of each run
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;
  std::vector<std::vector<DrillOutcome>> outcomes_;  // by run
};

std::string percent(int64_t part, int64_t whole) {
  return whole == 0 ? ""
                    : fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string seconds_text(const std::vector<double>& milliseconds) {
  if (milliseconds.empty()) return "";
  return fmt::format("{:.2f} ({:.2f})", median(milliseconds) * 1e-3,
                     *std::ranges::max_element(milliseconds) * 1e-3);
}

}  // namespace

std::vector<int64_t> rank_counts(const std::string& text) {
  std::vector<int64_t> counts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const int64_t count = parse_number<int64_t>(std::string_view(text).substr(at, end - at)).value_or(0);
    if (count < 2 || count > 64 || count % 2 != 0) {
      throw Error({.code = ExitCode::kUsage,
                   .what = "these are no numbers of ranks",
                   .expected = "even numbers from 2 to 64: two nodes share them",
                   .found = text,
                   .where = "--ranks",
                   .hint = "--ranks 4,8,16"});
    }
    counts.push_back(count);
    at = end + 1;
  }
  return counts;
}

std::vector<DrillOutcome> measure_faults(const FaultsRequest& request) {
  std::optional<TemporaryFolder> temporary;
  if (request.folder.empty()) temporary.emplace();
  const fs::path folder = fs::absolute(temporary ? temporary->path() : request.folder);
  if (folder.string().find_first_of(" :;") != std::string::npos) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the marks of faults cannot lie in this folder",
                 .expected = "a path without spaces, colons and semicolons: it stands in LONGHAUL_FAULTS",
                 .found = folder.string(),
                 .where = "--folder",
                 .hint = "--folder /tmp/faults"});
  }
  return Runs(request, folder).measure();
}

nlohmann::ordered_json to_json(const DrillOutcome& outcome) {
  const auto number = [](const std::optional<double>& value) {
    return value ? nlohmann::ordered_json(*value) : nullptr;
  };
  return {{"kind", outcome.drill.kind},
          {"place", outcome.drill.place},
          {"rank", outcome.drill.rank},
          {"step", outcome.drill.step},
          {"ranks", outcome.ranks},
          {"happened", outcome.happened},
          {"recovered", outcome.recovered},
          {"named", outcome.named},
          {"same_bits", outcome.same_bits},
          {"kept", outcome.kept},
          {"class", outcome.incident},
          {"detected_milliseconds", number(outcome.detected_milliseconds)},
          {"overdue_milliseconds", number(outcome.overdue_milliseconds)},
          {"diagnosed_milliseconds", number(outcome.diagnosed_milliseconds)},
          {"recovered_milliseconds", number(outcome.recovered_milliseconds)},
          {"problem", outcome.problem}};
}

observe::Table table_of(const std::vector<DrillOutcome>& outcomes) {
  using enum observe::Align;
  observe::Table table("faults: medians (and longest) in seconds", {{"fault"},
                                                                    {"count", kRight},
                                                                    {"recovered", kRight},
                                                                    {"named", kRight},
                                                                    {"equal bits", kRight},
                                                                    {"kept", kRight},
                                                                    {"detected", kRight},
                                                                    {"past deadline", kRight},
                                                                    {"diagnosed", kRight},
                                                                    {"next step", kRight}});
  const auto row_of = [&](const std::string& name, const auto& belongs) {
    int64_t count = 0, recovered = 0, named = 0, same = 0, kept = 0;
    std::vector<double> detected, overdue, diagnosed, restarted;
    const auto take = [](const std::optional<double>& value, std::vector<double>& into) {
      if (value) into.push_back(*value);
    };
    for (const DrillOutcome& outcome : outcomes) {
      if (!belongs(outcome)) continue;
      ++count;
      recovered += outcome.recovered, named += outcome.named, same += outcome.same_bits, kept += outcome.kept;
      take(outcome.detected_milliseconds, detected);
      take(outcome.overdue_milliseconds, overdue);
      take(outcome.diagnosed_milliseconds, diagnosed);
      take(outcome.recovered_milliseconds, restarted);
    }
    return std::vector<std::string>{name,
                                    fmt::format("{}", count),
                                    percent(recovered, count),
                                    percent(named, count),
                                    percent(same, count),
                                    percent(kept, count),
                                    seconds_text(detected),
                                    seconds_text(overdue),
                                    seconds_text(diagnosed),
                                    seconds_text(restarted)};
  };
  for (const std::string& kind : kinds_of_drills()) {
    auto row = row_of(kind, [&](const DrillOutcome& outcome) { return outcome.drill.kind == kind; });
    if (row[1] != "0") table.row(std::move(row));
  }
  table.total(row_of("all", [](const DrillOutcome&) { return true; }));
  return table;
}

}  // namespace longhaul::bench
