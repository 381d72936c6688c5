#include "bench/driver/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/files/file.h"
#include "base/files/small_disk.h"
#include "base/files/temporary_folder.h"
#include "base/memory/memory_group.h"
#include "base/process/children.h"
#include "base/process/fault_point.h"
#include "base/process/signals.h"
#include "base/progress.h"
#include "base/random.h"
#include "base/statistics.h"
#include "bench/driver/drill_run.h"
#include "bench/driver/driver_drills.h"
#include "bench/models/small_text.h"
#include "observe/events/event_comparison.h"
#include "observe/events/event_log.h"
#include "observe/events/run_history.h"

namespace longhaul::bench {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kCheckpointEvery = 2, kStride = 4;  // steps between two faults: each finds a checkpoint newer than the last one's
constexpr int64_t kEaten_bytes = 256 << 20;           // by a rank whose memory group has less

struct Kind {
  std::string_view name, action;
  bool from_outside = false;
};
// Weights: how often each stands here. Crashes and kills are most of what happens (docs/sources/reliability.md §2).
constexpr std::array<Kind, 19> kFaultKinds = {{{"killed", "kill"},
                                               {"killed", "kill"},
                                               {"killed", "kill"},
                                               {"segfault", "segfault"},
                                               {"segfault", "segfault"},
                                               {"aborted", "abort"},
                                               {"memory limit", "", true},
                                               {"stopped", "stop"},
                                               {"rank 0 stopped", "stop"},
                                               {"hang", "hang"},
                                               {"disk full", "", true},
                                               {"node killed", "", true},
                                               {"node frozen", "", true},
                                               {"driver killed", "", true},
                                               {"driver held up", "", true},
                                               {"driver opens no file", "", true},
                                               {"journal lost", "", true},
                                               {"daemon restarted", "", true},
                                               {"full disk at eviction", "", true}}};
constexpr std::array<std::string_view, 5> kPlacesOfAStep = {"step.data", "step.passes", "step.reduce", "step.update", "step.updated"};
constexpr std::array<std::string_view, 4> kPlacesOfACheckpoint = {"checkpoint.copied", "checkpoint.write", "checkpoint.before_rename",
                                                                  "checkpoint.after_rename"};

const Kind& kind_of(const Drill& drill) { return *std::ranges::find(kFaultKinds, drill.kind, &Kind::name); }

Drill draw_drill(const RandomStream& random, uint64_t index, int64_t ranks, int64_t step) {
  const auto below = [&](uint64_t which, size_t count) { return random.below(4 * index + which, static_cast<uint64_t>(count)); };
  const Kind& kind = kFaultKinds[below(0, kFaultKinds.size())];
  Drill drill{.kind = std::string(kind.name), .step = step, .from_outside = kind.from_outside};
  drill.rank = static_cast<int64_t>(below(1, static_cast<size_t>(ranks)));
  if (kind.from_outside) return drill;
  if (kind.name == "rank 0 stopped") drill.rank = 0;
  // A save that hangs does not hold up training: it is noticed when its own time is over, half an hour.
  const bool in_checkpoint = kind.name != "hang" && below(2, 3) == 0;
  if (!in_checkpoint) {
    drill.place = kPlacesOfAStep[below(3, kPlacesOfAStep.size())];
    return drill;
  }
  drill.place = kPlacesOfACheckpoint[below(3, kPlacesOfACheckpoint.size())];
  drill.step -= drill.step % kCheckpointEvery;
  if (drill.place == "checkpoint.before_rename" || drill.place == "checkpoint.after_rename") drill.rank = 0;  // who commits
  return drill;
}

void write_recipe(const fs::path& folder, int64_t ranks, int64_t steps) {
  write_small_text(folder / "text", 20);
  std::ofstream(folder / "recipe.toml") << fmt::format(
      "version = 1\n[model]\nlayers = 2\nhidden = 32\nheads = 2\nkv_heads = 2\nhead_dim = 16\nvocabulary = 257\n"
      "mixers = [\"lightning\", \"softmax\"]\nintermediate = 32\nrotary_dim = 8\n[data]\ntokenizer = \"bytes\"\nsource = \"{}\"\ncache = \"{}\"\n"
      "[train]\nsteps = {}\ndtype = \"fp32\"\nbatch = {}\nmicro_batch = 1\nsequence = 64\nevaluate_every = 0\ncheckpoint_every = {}\nthreads = 1\nelastic = true\n"
      "[optim]\nschedule = \"constant\"\n[sample]\ntokens = 0\n[observe]\ncompression_baseline = false\nreport = false\n",
      (folder / "text").string(), (folder / "cache").string(), steps, 2 * ranks, kCheckpointEvery);
}

// A start that resumed from a step before the newest checkpoint that was committed by then; nothing: there is none.
std::string lost_checkpoint(const fs::path& run) {
  int64_t committed = 0;
  for (const observe::Event& event : observe::read_events(run / "events.jsonl")) {
    if (const auto* saved = std::get_if<observe::CheckpointSaved>(&event.body)) committed = std::max(committed, saved->step);
    const auto* resumed = std::get_if<observe::Resume>(&event.body);
    if (resumed != nullptr && resumed->step < committed)
      return fmt::format("resumed from step {}, {} was committed", resumed->step, committed);
  }
  return "";
}

struct RunJudgement {
  bool ended = false, same_bits = false;
  std::string problem, lost;
  std::map<int64_t, observe::IncidentReport> incidents;  // by the generation they ended
  std::vector<double> disk_alarms;                       // when it was told that a checkpoint was not saved: Unix seconds
};

RunJudgement judge(const std::optional<int>& status, const fs::path& run, const fs::path& undisturbed, int64_t steps) {
  RunJudgement judgement;
  judgement.ended = status == 0;
  if (!judgement.ended) judgement.problem = status ? fmt::format("launch ended with {}", *status) : "launch took too long";
  if (!fs::exists(run / "events.jsonl")) return judgement;
  const observe::Comparison comparison = observe::compare(undisturbed, run);
  // Steps may be missing where an alarm in the stream says so: the disk was full, or rank 0 ended before its report. All others must be equal.
  const std::vector<observe::Event> told = observe::read_events(run / "events.jsonl");
  const bool lost_events = std::ranges::any_of(told, [](const observe::Event& event) {
    const auto* alarm = std::get_if<observe::Alarm>(&event.body);
    return alarm != nullptr && alarm->kind == "events_lost";
  });
  judgement.same_bits = comparison.equal() && (comparison.steps_in_both == steps || lost_events);
  if (!judgement.same_bits && judgement.problem.empty()) judgement.problem = comparison.text();
  if (const std::string lost = lost_checkpoint(run); !lost.empty()) judgement.lost = lost;
  for (const observe::Event& event : told) {
    const auto* alarm = std::get_if<observe::Alarm>(&event.body);
    if (alarm != nullptr && alarm->kind == "disk_full") judgement.disk_alarms.push_back(event.common.wall_time);
  }
  const fs::path events = run / "events" / "driver-0.jsonl";
  if (!fs::exists(events)) return judgement;
  for (const observe::Event& event : observe::read_events(events)) {
    // A disk without room ends no generation; another fault of the same one does.
    const auto* incident = std::get_if<observe::IncidentReport>(&event.body);
    if (incident != nullptr && incident->fault != "storage") judgement.incidents.emplace(incident->ended_generation, *incident);
  }
  return judgement;
}

DrillOutcome outcome_of(const Drill& drill, int64_t ranks, const std::optional<FaultMark>& mark, const RunJudgement& judgement) {
  DrillOutcome outcome{.drill = drill, .ranks = ranks, .happened = mark.has_value()};
  outcome.problem = judgement.problem.empty() ? judgement.lost : judgement.problem;
  if (!mark) {
    if (outcome.problem.empty()) outcome.problem = "it never came";
    return outcome;
  }
  outcome.recovered = judgement.ended, outcome.same_bits = judgement.same_bits, outcome.kept = judgement.lost.empty();
  if (drill.kind == "disk full") {
    outcome.named = std::ranges::any_of(judgement.disk_alarms, [&](double told) { return told >= mark->wall_time; });
    outcome.incident = outcome.named ? "disk_full" : "";
    return outcome;
  }
  if (names_nobody(drill.kind)) {
    outcome.named = true;
    return outcome;
  }
  const auto found = judgement.incidents.find(mark->generation);
  if (found == judgement.incidents.end()) {
    outcome.problem += fmt::format("no incident of generation {}", mark->generation);
    return outcome;
  }
  const observe::IncidentReport& incident = found->second;
  outcome.incident = incident.fault;
  const bool of_a_node = drill.kind.starts_with("node") || drill.kind == "daemon restarted";
  outcome.named = of_a_node ? !incident.node.empty() : incident.rank == drill.rank;
  if (drill.kind == "memory limit") outcome.named = outcome.named && incident.fault == "host_out_of_memory";
  outcome.detected_milliseconds = incident.detected_milliseconds;
  outcome.overdue_milliseconds = incident.overdue_milliseconds;
  outcome.diagnosed_milliseconds = incident.diagnosed_milliseconds;
  outcome.recovered_milliseconds = incident.recovered_milliseconds;
  return outcome;
}

std::vector<DrillOutcome> one_run(const FaultsRequest& request, const fs::path& folder, int64_t index, int64_t ranks, int64_t count) {
  const DrillPlan plan = plan_drills(request.seed, index, ranks, count, kinds_not_here());
  write_recipe(folder, ranks, plan.steps);
  const fs::path undisturbed = folder / "undisturbed", run = folder / "run", marks = folder / "marks";
  make_folders(marks);
  if (const auto status = run_drills(folder, undisturbed, ranks, {}, marks, [](const auto&) {}); status != 0) {
    throw Error({.code = ExitCode::kInternal,
                 .what = "the run without faults failed",
                 .found = fmt::format("exit code {}", status.value_or(-1)),
                 .where = (folder / "undisturbed.log").string()});
  }
  RunJudgement judgement;
  run_drills(folder, run, ranks, plan, marks,
             [&](const std::optional<int>& status) { judgement = judge(status, run, undisturbed, plan.steps); });
  std::vector<DrillOutcome> outcomes;
  for (size_t i = 0; i < plan.drills.size(); ++i) {
    outcomes.push_back(outcome_of(plan.drills[i], ranks, read_fault_mark(DrillPlan::mark_of(marks, i)), judgement));
    if (!outcomes.back().good()) outcomes.back().problem += fmt::format(" ({})", folder.string());
  }
  return outcomes;
}

std::string percent(int64_t part, int64_t whole) {
  return whole == 0 ? "" : fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string seconds_text(const std::vector<double>& milliseconds) {
  if (milliseconds.empty()) return "";
  return fmt::format("{:.2f} ({:.2f})", median(milliseconds) * 1e-3, *std::ranges::max_element(milliseconds) * 1e-3);
}

}  // namespace

std::vector<std::string> kinds_of_drills() {
  std::vector<std::string> names;
  for (const Kind& kind : kFaultKinds) {
    if (names.empty() || names.back() != kind.name) names.emplace_back(kind.name);
  }
  return names;
}

std::vector<int64_t> rank_counts(const std::string& text) {
  std::vector<int64_t> counts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    int64_t count = 0;
    const auto [last, error] = std::from_chars(text.data() + at, text.data() + end, count);
    if (error != std::errc() || last != text.data() + end || count < 2 || count > 64 || count % 2 != 0) {
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

std::set<std::string> kinds_not_here() {
  std::set<std::string> without;
  if (!LimitedMemory("asked", 1 << 20).usable()) without.insert("memory limit");
  const TemporaryFolder folder;
  if (!SmallDisk(folder / "disk", 1 << 20).usable()) without.insert("disk full");
  return without;
}

DrillPlan plan_drills(uint64_t seed, int64_t run, int64_t ranks, int64_t count, const std::set<std::string>& without) {
  const RandomStream random(seed, fmt::format("bench/faults/{}", run));
  DrillPlan plan;
  for (int64_t i = 0; i < count; ++i) {
    // A second lack of memory ends a run as it should (docs/sources/reliability.md §5.3): another start would not come further.
    const auto known = [&](const Drill& drill) {
      const bool second = std::ranges::find(plan.drills, drill.kind, &Drill::kind) != plan.drills.end();
      return without.contains(drill.kind) || (drill.kind == "memory limit" && second);
    };
    Drill drill = draw_drill(random, static_cast<uint64_t>(i), ranks, (i + 1) * kStride + 1);
    for (int64_t again = i + count; known(drill); again += count)
      drill = draw_drill(random, static_cast<uint64_t>(again), ranks, (i + 1) * kStride + 1);
    plan.drills.push_back(drill);
  }
  plan.steps = (count + 2) * kStride;
  return plan;
}

std::string DrillPlan::faults(const fs::path& marks) const {
  std::string text;
  for (size_t i = 0; i < drills.size(); ++i) {
    const Drill& drill = drills[i];
    // From outside: long enough for this process to see the mark; short enough not to be a hang.
    if (drill.kind == "memory limit") {
      text += fmt::format("step.passes:step={}:rank={}:once={}-eats eat={}; ", drill.step, drill.rank, mark_of(marks, i).string(),
                          kEaten_bytes);
    }
    text += fmt::format("{}:step={}:rank={}:once={} {}; ", drill.from_outside ? "step.data" : drill.place, drill.step, drill.rank,
                        mark_of(marks, i).string(), drill.from_outside ? "slow=1.8" : kind_of(drill).action);
  }
  return text;
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
  std::vector<DrillOutcome> outcomes;
  Progress progress("faults", request.count);
  for (int64_t run = 0; static_cast<int64_t>(outcomes.size()) < request.count; ++run) {
    const int64_t ranks = request.ranks[static_cast<size_t>(run) % request.ranks.size()];
    const int64_t count = std::min(request.faults_a_run, request.count - static_cast<int64_t>(outcomes.size()));
    const fs::path own = folder / fmt::format("run-{:03}", run);
    const std::vector<DrillOutcome> more = one_run(request, own, run, ranks, count);
    if (std::ranges::all_of(more, &DrillOutcome::good)) fs::remove_all(own);
    outcomes.insert(outcomes.end(), more.begin(), more.end());
    std::ofstream lines(folder / "outcomes.jsonl",
                        std::ios::app);  // a thousand take hours: what is known stays when the bench is interrupted
    for (const DrillOutcome& outcome : more) lines << to_json(outcome).dump() << "\n";
    progress.advance(count);
  }
  return outcomes;
}

nlohmann::ordered_json to_json(const DrillOutcome& outcome) {
  const auto number = [](const std::optional<double>& value) { return value ? nlohmann::ordered_json(*value) : nullptr; };
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
