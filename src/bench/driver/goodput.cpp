#include "bench/driver/goodput.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/files/folders.h"
#include "base/files/temporary_folder.h"
#include "base/process/children.h"
#include "base/process/process.h"
#include "base/process/signals.h"
#include "base/progress.h"
#include "base/random.h"
#include "base/statistics.h"
#include "bench/models/small_text.h"
#include "control/driver/driver_client.h"
#include "observe/events/event_log.h"
#include "observe/format.h"
#include "plan/reliability/effective_rate.h"

namespace longhaul::bench {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kEndless = 100'000'000;             // steps: a run is ended from outside
constexpr int64_t kCalmSteps = 60, kFirstSteps = 10;  // of the run that says how long a step is
constexpr double kLongestEnd_s = 120;                 // for a run that is asked to end, and for the calm one
constexpr double kReported_s = 0.2;  // the report of a step that was over may come so long after a kill

struct Way {
  std::string name;
  int64_t restarts;
  std::string memory_every;  // train.checkpoint_memory_every
  bool requeued;
};
std::vector<Way> ways() {
  return {{"requeued", 0, "0", true}, {"restarted", 100000, "0", false}, {"memory", 100000, "1", false}};
}

void write_recipe(const fs::path& folder) {
  write_small_text(folder / "text", 20);
  std::ofstream(folder / "recipe.toml") << fmt::format(
      "version = 1\n[model]\nlayers = 4\nhidden = 128\nheads = 4\nkv_heads = 4\nhead_dim = 32\nvocabulary = "
      "257\nmixers = [\"lightning\", \"softmax\"]\nintermediate = 256\nrotary_dim = 16\n[data]\ntokenizer = "
      "\"bytes\"\nsource = \"{}\"\ncache = \"{}\"\n[train]\ndtype = \"fp32\"\nbatch = 8\nmicro_batch = "
      "1\nsequence = 128\nevaluate_every = 0\nthreads = 1\n[optim]\nschedule = "
      "\"constant\"\n[sample]\ntokens = "
      "0\n[observe]\ncompression_baseline = false\nreport = false\n",
      (folder / "text").string(), (folder / "cache").string());
}

// A run under `launch`, in the background.
class Supervised {
 public:
  Supervised(const GoodputRequest& request, const fs::path& folder, const std::string& name, int64_t restarts,
             const std::vector<std::string>& words)
      : run_(folder / name),
        start_{.argv = {fs::canonical("/proc/self/exe").string(), "launch", "-n",
                        std::to_string(request.ranks), "--nodes", "2", "--restarts", std::to_string(restarts),
                        (folder / "recipe.toml").string(), "--run", run_.string()},
               .environment = {"NO_COLOR=1", "OMP_WAIT_POLICY=passive"},
               .log = folder / (name + ".log"),
               .death_signal = SIGTERM,
               .own_session = true} {
    start_.argv.insert(start_.argv.end(), words.begin(), words.end());
  }
  ~Supervised() { end(); }

  void start() {
    status_.reset();
    child_ = start_child(start_);
  }
  bool ended() {
    if (child_ != 0 && !status_) status_ = exit_of(child_);
    return child_ == 0 || status_.has_value();
  }
  int status() const { return status_.value_or(-1); }
  const fs::path& run() const { return run_; }
  const fs::path& log() const { return start_.log; }

  // As somebody who wants the machine: it saves and ends.
  void end() {
    if (ended()) return;
    Children::signal(child_, SIGTERM);
    for (const Stopwatch asked; !ended() && asked.seconds() < kLongestEnd_s;) pause_briefly();
    if (!ended()) Children::signal(child_, SIGKILL);
  }

  // The process of a rank that runs; none: nobody can say, or it does not run.
  std::optional<pid_t> process_of(int64_t rank) const {
    try {
      const control::RunStatus told = control::status_of_run(run_);
      const auto status = nlohmann::json::parse(told.text, nullptr, /*allow_exceptions=*/false);
      if (!told.from_driver || !status.is_object() || !status.contains("ranks")) return std::nullopt;
      for (const auto& one : status.at("ranks")) {
        if (one.value("rank", int64_t{-1}) != rank || one.value("state", "") != "running") continue;
        const auto pid = one.value("pid", pid_t{0});
        return pid > 0 ? std::optional(pid) : std::nullopt;
      }
    } catch (const Error&) {
      // just now nobody answers
    }
    return std::nullopt;
  }

 private:
  fs::path run_;
  ChildStart start_;
  pid_t child_ = 0;
  std::optional<int> status_;
};

[[noreturn]] void refuse_end(Supervised& run) {
  throw Error({.code = ExitCode::kInternal,
               .what = "a run of the bench ended by itself",
               .expected = "it goes on until it is asked to end",
               .found = fmt::format("exit code {}", run.status()),
               .where = run.log().string(),
               .hint = "bench goodput --folder FOLDER keeps the log"});
}

double calm_step_s(const GoodputRequest& request, const fs::path& folder) {
  Supervised run(request, folder, "calm", 0,
                 {fmt::format("train.steps={}", kCalmSteps), "train.checkpoint_every=0",
                  "train.checkpoint_memory_every=0"});
  run.start();
  for (const Stopwatch watch; !run.ended() && watch.seconds() < kLongestEnd_s;) {
    if (!pause_unless_stopped(0.05)) throw_if_stop_requested("the bench");
  }
  if (!run.ended() || run.status() != 0) refuse_end(run);
  std::vector<double> steps;
  for (const observe::Event& event : observe::read_events(run.run() / "events.jsonl")) {
    const auto* step = std::get_if<observe::StepReport>(&event.body);
    if (step != nullptr && step->step > kFirstSteps) steps.push_back(1e-3 * step->milliseconds);
  }
  return median(steps);
}

GoodputRow measure_way(const GoodputRequest& request, const Way& way, const fs::path& folder, double step_s,
                       Progress& progress) {
  const auto every = std::max<int64_t>(1, std::llround(request.checkpoint_s / step_s));
  Supervised run(request, folder, way.name, way.restarts,
                 {fmt::format("train.steps={}", kEndless), fmt::format("train.checkpoint_every={}", every),
                  "train.checkpoint_memory_every=" + way.memory_every});
  const double length_s = 60 * request.minutes, begin_s = wall_time_s();
  const std::vector<double> times = failure_times(request.seed, request.mean_to_failure_s, length_s);
  const RandomStream ranks(request.seed, "bench/goodput/ranks");
  std::vector<InjectedFailure> failures;
  std::optional<double> queued_until;
  int64_t minutes = 0;
  const Stopwatch watch;
  run.start();
  while (watch.seconds() < length_s) {
    if (!pause_unless_stopped(0.05)) throw_if_stop_requested("the bench");
    for (; minutes < static_cast<int64_t>(watch.seconds() / 60); ++minutes) progress.advance(1);
    if (run.ended() && !way.requeued) refuse_end(run);
    if (run.ended()) {
      if (!queued_until) queued_until = watch.seconds() + request.queue_s;
      if (watch.seconds() >= *queued_until) queued_until.reset(), run.start();
    }
    if (failures.size() < times.size() && watch.seconds() >= times[failures.size()]) {
      const auto rank =
          static_cast<int64_t>(ranks.below(failures.size(), static_cast<uint64_t>(request.ranks)));
      const auto process = run.ended() ? std::nullopt : run.process_of(rank);
      if (process) Children::signal(*process, SIGKILL);
      failures.push_back({.unix_s = wall_time_s(), .rank = rank, .missed = !process});
    }
  }
  const double end_s = wall_time_s();
  run.end();
  for (; minutes < static_cast<int64_t>(request.minutes); ++minutes) progress.advance(1);
  const double interval_s = (way.memory_every == "1" ? 1 : static_cast<double>(every)) * step_s;
  return goodput_of(way.name, observe::read_events(run.run() / "events.jsonl"), begin_s, end_s, failures,
                    interval_s);
}

}  // namespace

std::vector<double> failure_times(uint64_t seed, double mean_s, double length_s) {
  const RandomStream draws(seed, "bench/goodput/times");
  std::vector<double> times;
  double now = 0;
  for (uint64_t i = 0;; ++i) {
    now -= mean_s * std::log1p(-draws.uniform(i));
    if (now >= length_s) return times;
    times.push_back(now);
  }
}

GoodputRow goodput_of(const std::string& way, const std::vector<observe::Event>& events, double begin_s,
                      double end_s, const std::vector<InjectedFailure>& failures, double interval_s) {
  GoodputRow row{.way = way, .wall_s = end_s - begin_s, .interval_s = interval_s};
  struct Report {
    double unix_s, seconds;
    int64_t step;
  };
  std::vector<Report> reports;
  for (const observe::Event& event : events) {
    const auto* step = std::get_if<observe::StepReport>(&event.body);
    if (step == nullptr || event.common.wall_time < begin_s || event.common.wall_time > end_s) continue;
    reports.push_back({event.common.wall_time, 1e-3 * step->milliseconds, step->step});
  }
  std::map<int64_t, double> kept;  // by step: the seconds of the last time that it was done
  std::vector<double> seconds;
  for (const Report& report : reports) {
    seconds.push_back(report.seconds);
    // A run that went back has the later steps no more.
    for (auto later = kept.lower_bound(report.step); later != kept.end(); later = kept.erase(later)) {
      row.again_s += later->second;
      ++row.steps_again;
    }
    kept[report.step] = report.seconds;
  }
  for (const auto& [step, took] : kept) row.useful_s += took;
  row.steps = std::ssize(kept);
  row.step_s = seconds.empty() ? 0 : median(seconds);
  double until_s = begin_s;  // of what was counted as time without training
  for (const InjectedFailure& failure : failures) {
    (failure.missed ? row.missed : row.failures) += 1;
    if (failure.missed) continue;
    const auto next = std::ranges::find_if(
        reports, [&](const Report& report) { return report.unix_s > failure.unix_s + kReported_s; });
    const double again_at_s = next == reports.end() ? end_s : next->unix_s - next->seconds;
    row.down_s += std::max(0.0, again_at_s - std::max(failure.unix_s, until_s));
    until_s = std::max(until_s, again_at_s);
  }
  if (row.failures == 0) {
    row.formula = row.simulated = 1;
    return row;
  }
  row.restart_s = row.down_s / static_cast<double>(row.failures);
  const double mean_s = row.wall_s / static_cast<double>(row.failures);
  row.formula = plan::expected_effective_rate(mean_s, interval_s, 0, row.restart_s);
  row.simulated =
      plan::simulate_rate(
          {.days = 30,
           .mean_to_failure_s = mean_s,
           .step_s = row.step_s,
           .interval_s = interval_s,
           .kinds = {{.name = "rank killed", .detect_s = 0, .diagnose_s = 0, .restart_s = row.restart_s}}})
          .rate;
  return row;
}

std::vector<GoodputRow> measure_goodput(const GoodputRequest& request) {
  std::optional<TemporaryFolder> temporary;
  if (request.folder.empty()) temporary.emplace();
  const fs::path folder = temporary ? temporary->path() : request.folder;
  if (fs::exists(folder / "calm")) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the folder holds the runs of another bench, which these would go on with",
                 .expected = "an empty folder, or one that is not there yet",
                 .found = (folder / "calm").string(),
                 .where = "--folder",
                 .hint = "bench goodput --folder ANOTHER"});
  }
  make_folders(folder);
  write_recipe(folder);
  const double step_s = calm_step_s(request, folder);
  const std::vector<Way> all = ways();
  Progress progress("minutes", static_cast<int64_t>(request.minutes) * std::ssize(all));
  std::vector<GoodputRow> rows;
  for (const Way& way : all) rows.push_back(measure_way(request, way, folder, step_s, progress));
  return rows;
}

nlohmann::ordered_json to_json(const GoodputRow& row) {
  return {{"name", "goodput"},
          {"way", row.way},
          {"failures", row.failures},
          {"missed", row.missed},
          {"wall_seconds", row.wall_s},
          {"useful_seconds", row.useful_s},
          {"down_seconds", row.down_s},
          {"again_seconds", row.again_s},
          {"steps", row.steps},
          {"steps_again", row.steps_again},
          {"step_seconds", row.step_s},
          {"interval_seconds", row.interval_s},
          {"restart_seconds", row.restart_s},
          {"measured", row.measured()},
          {"formula", row.formula},
          {"simulated", row.simulated}};
}

observe::Table table_of(const GoodputRequest& request, const std::vector<GoodputRow>& rows) {
  using observe::Align;
  observe::Table table(
      fmt::format("{:g} minutes each, a rank killed every {:g} s on the average, a checkpoint every {:g} s",
                  request.minutes, request.mean_to_failure_s, request.checkpoint_s),
      {{"way"},
       {"killed", Align::kRight},
       {"useful", Align::kRight},
       {"formula", Align::kRight},
       {"simulated", Align::kRight},
       {"nothing ran", Align::kRight},
       {"done again", Align::kRight},
       {"between steps", Align::kRight},
       {"back after", Align::kRight},
       {"steps", Align::kRight},
       {"again", Align::kRight}});
  for (const GoodputRow& row : rows) {
    const double between = row.wall_s - row.useful_s - row.down_s - row.again_s;
    table.row({row.way,
               row.missed > 0 ? fmt::format("{} (+{} missed)", row.failures, row.missed)
                              : std::to_string(row.failures),
               observe::percent(row.measured()), observe::percent(row.formula),
               observe::percent(row.simulated), observe::percent(row.down_s / row.wall_s),
               observe::percent(row.again_s / row.wall_s), observe::percent(between / row.wall_s),
               fmt::format("{:.1f} s", row.restart_s), std::to_string(row.steps),
               std::to_string(row.steps_again)});
  }
  return table;
}

}  // namespace longhaul::bench
