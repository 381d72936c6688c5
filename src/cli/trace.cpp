// `longhaul trace RUN [--out FILE] [--steps A-B] [--planned] [--stragglers]`, `longhaul trace RUN --hang
// [--out FILE.svg]`
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/files/file.h"
#include "base/terminal.h"
#include "base/text/text.h"
#include "base/threads/parallel.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/write_trace.h"
#include "detect/hang/hang.h"
#include "detect/hang/hang_picture.h"
#include "detect/straggler/straggler.h"
#include "observe/events/run_history.h"
#include "observe/format.h"
#include "observe/trace/call_cost.h"
#include "observe/trace/time_use.h"
#include "observe/trace/timeline.h"
#include "plan/predicted_trace.h"
#include "recipe/load.h"
#include "run/local_cluster.h"

namespace longhaul::cli {
namespace {

struct TraceArguments {
  std::string run, out, steps;
  bool json = false, hang = false, stragglers = false, planned = false;
};

struct PlannedBeside {
  std::vector<observe::RankTrace> ranks;
  double step_s = 0;  // all parts of the step, as `train` tells it at its end; not all of them are drawn
};

// The last of the shown steps as the planner has it for this machine, beside the ranks that ran it.
PlannedBeside planned_beside(const std::filesystem::path& run, const std::vector<observe::RankTrace>& ranks) {
  const recipe::Recipe recipe = recipe::load((run / "recipe.toml").string(), {}).recipe;
  const plan::PlanLayout layout = plan::layout_of_recipe(recipe);
  // The machine's peaks are measured for a number of threads, of which this process may have others than the
  // run had.
  if (const auto start = observe::read_run(run).start; start && start->threads > 0)
    set_threads(static_cast<int>(start->threads));
  const plan::StepParts parts =
      plan::step_parts(plan::work_of(recipe.model, recipe.train.sequence), layout, recipe.train.batch,
                       run::local_cluster(layout.world()), plan::default_practice(layout));
  const auto last = observe::steps_of(ranks).back();
  int64_t begin_ns = std::numeric_limits<int64_t>::max();
  for (const observe::StepOfRank& rank : last) begin_ns = std::min(begin_ns, rank.step->begin_ns);
  std::vector<observe::TraceRank> shown;
  for (const observe::RankTrace& rank : ranks) shown.push_back(rank.rank);
  return {plan::predicted_trace(layout, recipe.train.batch, parts, shown, last.front().step->step, begin_ns),
          parts.total()};
}

// What differs between machines, in words.
std::string clocks_of(const std::vector<observe::RankTrace>& ranks) {
  int64_t worst_ns = 0;
  for (const auto& rank : ranks) worst_ns = std::max(worst_ns, rank.rank.clock_error_ns);
  if (worst_ns == 0) return "All ranks have one clock.";
  return fmt::format("The clocks of the ranks were compared when they began; they agree to {:.0f} µs.",
                     static_cast<double>(worst_ns) * 1e-3);
}

// Of a run that stands still now, or that has failed.
ExitCode run_hang(const TraceArguments& arguments) {
  const std::filesystem::path run = arguments.run;
  detect::HangReport report = detect::hang_of_run(run);
  if (report.kind == detect::HangKind::kNone) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "nothing is known of the calls of this run's ranks",
                 .expected = "ranks that run on this machine under `launch`, or that have failed",
                 .where = run.string(),
                 .hint = "for a process that hangs by itself: kill -USR2 PID writes what its threads do"});
  }
  const recipe::Recipe recipe = recipe::load((run / "recipe.toml").string(), {}).recipe;
  const std::filesystem::path out =
      arguments.out.empty() ? run / "trace" / "hang.svg" : std::filesystem::path(arguments.out);
  const int64_t world = std::max(recipe.parallel.world(), report.ranks.back() + 1);
  write_text_atomically(out, detect::hang_picture(report, detect::mesh_axes(recipe.parallel, world)).svg());
  if (arguments.json) {
    nlohmann::ordered_json object = detect::to_json(report);
    object["out"] = out.string();
    print_json(object);
  } else {
    print(report.text() + fmt::format("\n{}: the mesh, with who waits for whom\n", out.string()));
  }
  return ExitCode::kDone;
}

nlohmann::ordered_json json_of(const detect::StragglerReport& report) {
  nlohmann::ordered_json stragglers = nlohmann::ordered_json::array(),
                         groups = nlohmann::ordered_json::array();
  for (const detect::Straggler& each : report.stragglers) {
    stragglers.push_back({{"rank", each.rank},
                          {"cause", detect::name_of(each.cause)},
                          {"slower", each.slower},
                          {"last", std::isfinite(each.last) ? nlohmann::ordered_json(each.last) : nullptr},
                          {"score", each.score},
                          {"own_score", each.own_score},
                          {"lost_seconds", each.lost_s}});
  }
  for (const detect::SlowGroup& each : report.groups) {
    groups.push_back(
        {{"group", each.group}, {"kind", each.kind}, {"longer", each.longer}, {"ranks", each.ranks}});
  }
  nlohmann::ordered_json json{{"steps", report.steps}, {"stragglers", stragglers}, {"groups", groups}};
  if (report.change) json["change"] = {{"step", report.change_step}, {"slower", report.change->slower()}};
  return json;
}

// Recorded steps are few, and none of them is the first of a start unless all are recorded.
ExitCode show_stragglers(const std::vector<observe::RankTrace>& ranks, bool json) {
  constexpr int64_t kLeastSteps = 5;
  const detect::StragglerReport report =
      detect::find_stragglers(detect::step_times(ranks), {.warm_up = 1, .least = kLeastSteps});
  if (json)
    print_json(json_of(report));
  else
    print(detect::text_of(report));
  return ExitCode::kDone;
}

nlohmann::ordered_json json_of_ranks(const std::vector<observe::TimeUse>& ranks) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const observe::TimeUse& use : ranks) {
    const int64_t planned = use.rank >= observe::kFirstPlannedRank ? observe::kFirstPlannedRank : 0;
    list.push_back({{"rank", use.rank - planned},
                    {"steps", use.steps},
                    {"wall_ns", use.wall_ns},
                    {"busy_ns", use.busy_ns},
                    {"exposed_ns", use.exposed_ns},
                    {"idle_ns", use.idle_ns}});
  }
  return list;
}

nlohmann::ordered_json json_of_calls(const std::vector<observe::CallCost>& kinds) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const observe::CallCost& cost : kinds) {
    list.push_back({{"group", cost.group},
                    {"call", cost.name},
                    {"calls", cost.calls},
                    {"sent_bytes", cost.bytes},
                    {"exposed_ns", cost.exposed_ns},
                    {"waited_for_others_ns", cost.early_ns}});
  }
  return list;
}

ExitCode run_trace(const TraceArguments& arguments) {
  if (arguments.hang) return run_hang(arguments);
  auto ranks = observe::read_trace(arguments.run, observe::step_choice(arguments.steps));
  observe::require_steps(ranks, arguments.run, arguments.steps);
  if (arguments.stragglers) return show_stragglers(ranks, arguments.json);
  const auto use = observe::time_use(ranks);
  const std::vector<observe::CallCost> calls = observe::call_costs(ranks);
  const std::filesystem::path out = arguments.out.empty()
                                        ? std::filesystem::path(arguments.run) / "trace" / "trace.json"
                                        : std::filesystem::path(arguments.out);
  std::vector<observe::TimeUse> planned;
  double planned_s = 0;
  if (arguments.planned) {
    PlannedBeside beside = planned_beside(arguments.run, ranks);
    planned = observe::time_use(beside.ranks);
    planned_s = beside.step_s;
    std::ranges::move(beside.ranks, std::back_inserter(ranks));
  }
  write_trace(ranks, out);
  if (arguments.json) {
    nlohmann::ordered_json json{
        {"out", out.string()}, {"ranks", json_of_ranks(use)}, {"calls", json_of_calls(calls)}};
    if (arguments.planned) json["planned"] = json_of_ranks(planned);
    print_json(json);
    return ExitCode::kDone;
  }
  print(observe::time_use_table(use, colours_wanted(stdout)));
  if (!calls.empty()) {
    constexpr size_t kShown = 12;
    print("\n" + observe::call_cost_table(calls, use.front().steps, kShown, colours_wanted(stdout)));
  }
  if (!planned.empty()) {
    double measured = 0;
    for (const observe::TimeUse& each : use)
      measured = std::max(measured, static_cast<double>(each.wall_ns) / static_cast<double>(each.steps));
    print(
        fmt::format("\nA step as planned for this machine takes {} (of which {} are drawn: passes and "
                    "exchanges), measured {}; it lies beside the last step shown.\n",
                    observe::milliseconds_text(1e3 * planned_s),
                    observe::milliseconds_text(1e-6 * static_cast<double>(planned.front().wall_ns)),
                    observe::milliseconds_text(1e-6 * measured)));
  }
  print(
      fmt::format("\nMeans of {}. Exposed: all ranks had come, and nothing hid the call. Idle: others had "
                  "not come, data was waited for, or nothing\n"
                  "that is recorded went on. {}\n\n{}: open it at https://ui.perfetto.dev (it stays on your "
                  "machine) or chrome://tracing\n",
                  counted(use.front().steps, "step"), clocks_of(ranks), out.string()));
  return ExitCode::kDone;
}

}  // namespace

void add_trace(Command& program) {
  auto arguments = std::make_shared<TraceArguments>();
  Command trace = program.add(
      "trace", "who did what when: the recorded steps of a run, for Perfetto, and where their time went",
      {{"all recorded steps of a run (train … observe.trace_every=10)", "trace runs/first-run"},
       {"steps 20 to 40, as a small file for Perfetto",
        "trace runs/first-run --steps 20-40 --out run.pftrace"},
       {"the last step beside the one that the planner predicts",
        "trace runs/first-run --steps 40 --planned"},
       {"which ranks the others wait for, and why", "trace runs/first-run --stragglers"},
       {"a run that stands still: which rank keeps it, and in what", "trace runs/first-run --hang"}});
  trace.option("RUN", arguments->run, "a run folder").required();
  trace.option("--out", arguments->out,
               "the file to write: Perfetto's protobuf where it ends in .pftrace, else Chrome's JSON "
               "(default: trace/trace.json in the run folder)");
  trace.option("--steps", arguments->steps,
               "a step, or the first and the last of some: 20-40 (default: all)");
  trace.flag(
      "--hang", arguments->hang,
      "who waits for whom now, or did when the run failed; --out is a picture (default: trace/hang.svg)");
  trace.flag("--stragglers", arguments->stragglers,
             "instead say which ranks the others wait for: slow, with more work, late data, slow links");
  trace.flag("--planned", arguments->planned,
             "also the step that the planner predicts for this machine, beside the last one shown");
  trace.json_flag(arguments->json);
  trace.on_run([arguments] { return run_trace(*arguments); });
}

}  // namespace longhaul::cli
