// `longhaul detect run` and `detect score`.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "base/clock.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/signals.h"
#include "base/statistics.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "detect/case_files.h"
#include "detect/driver.h"
#include "detect/page.h"
#include "detect/prometheus.h"
#include "detect/run_samples.h"
#include "detect/score.h"
#include "detect/stream.h"
#include "observe/table.h"

namespace longhaul::cli {
namespace {

using nlohmann::ordered_json;
using observe::Align;

// What both commands may be told about how to look.
struct LookArguments {
  std::string models, variant = "minder", distance = "euclidean", metrics, priority = "learnt";
  int64_t top = 1, followed = 0, continuity_s = 240, gap_s = 8, agreement_from = 100, pull_s = 900, every_s = 480;
  double share = -1, distance_threshold = -1, silent_s = 60;
  bool strict = false, no_continuity = false, json = false, stream = false;

  void declare(Command& command) {
    command.option("--models", models, "file that `detect train` wrote").required();
    command.option("--variant", variant, "minder, raw (no denoising), mean, robust-z, con, int, md or md-joint")
        .one_of(detect::variant_names())
        .default_shown();
    command.option("--distance", distance, "euclidean, manhattan or chebyshev")
        .one_of({"euclidean", "manhattan", "chebyshev"})
        .default_shown();
    command.option("--metrics", metrics, "used, fewer, more, all, or names with commas (default: all that there are models of)");
    command.option("--priority", priority, "order of metrics: learnt, tree (only those in the tree) or paper")
        .one_of({"learnt", "tree", "paper"})
        .default_shown();
    command.option("--top", top, "faulty machines that may be found at once").at_least(1).at_most(16).default_shown();
    command.option("--followed", followed, "the furthest machines whose runs are counted; 0: an eighth of their class, 1 to 16")
        .at_least(0)
        .at_most(64)
        .default_shown();
    command.option("--continuity", continuity_s, "seconds that a machine must stay the furthest")
        .at_least(1)
        .at_most(86'400)
        .default_shown();
    command.option("--gap", gap_s, "seconds in a row that may lack it").at_least(0).at_most(3'600).default_shown();
    command
        .option("--agreement-from", agreement_from,
                "machines of a class beyond which a metric needs another that agrees, or twice the time; 0: never")
        .at_least(0)
        .default_shown();
    command.option("--share", share, "score above which a machine is a candidate, 0 to 1 (default: as tuned)").at_least(0).at_most(1);
    command.option("--distance-threshold", distance_threshold, "median distance that it must have, of values in 0 to 1 (default: as tuned)")
        .at_least(0);
    command.option("--silent", silent_s, "seconds without data after which a machine is named").above(0).default_shown();
    command.option("--pull", pull_s, "seconds that a call looks at").at_least(16).default_shown();
    command.option("--every", every_s, "seconds between calls").at_least(1).default_shown();
    command.flag("--strict", strict, "no gaps");
    command.flag("--no-continuity", no_continuity, "half of the windows of one minute are enough");
    command.flag("--stream", stream, "second by second instead of in calls");
    command.json_flag(json);
  }

  detect::DetectOptions options() const {
    detect::DetectOptions made{.variant = detect::variant_named(variant), .distance = detect::distance_named(distance)};
    made.priority = priority == "paper"  ? detect::Priority::kPaper
                    : priority == "tree" ? detect::Priority::kTree
                                         : detect::Priority::kLearnt;
    if (!metrics.empty()) made.metrics = detect::metric_choice(metrics);
    made.top = static_cast<int>(top), made.followed = static_cast<int>(followed), made.continuous = !no_continuity,
    made.continuity_s = continuity_s, made.gap_s = strict ? 0 : gap_s, made.agreement_from = agreement_from;
    if (share >= 0) made.share = share;
    if (distance_threshold >= 0) made.distance_threshold = distance_threshold;
    made.silent_s = silent_s, made.call_every_s = every_s, made.pull_s = pull_s;
    return made;
  }
};

bool is_absent(const detect::Pull& record, const detect::Alert& alert) {
  const auto at = std::find(record.machines.begin(), record.machines.end(), alert.machine) - record.machines.begin();
  return record.absent(static_cast<int32_t>(at), alert.raised_s);
}

detect::RunReport looked(const detect::Pull& record, const detect::Models& models, const LookArguments& look) {
  const detect::DetectOptions options = look.options();
  if (!look.stream) return detect::run_calls(record, models, options);
  detect::RunReport report;
  const Stopwatch watch;
  detect::Stream stream(models, options, record.machines, record.metrics, record.class_of, record.classes);
  std::vector<float> row(record.metrics.size() * record.machines.size());
  for (int64_t s = 0; s < record.seconds; ++s) {
    for (size_t m = 0; m < record.metrics.size(); ++m)
      std::copy(record.row(m, s), record.row(m, s) + record.count(), row.begin() + static_cast<std::ptrdiff_t>(m * record.machines.size()));
    for (const detect::Alert& alert : stream.next(record.first_s + static_cast<double>(s), row)) {
      if (alert.metric == detect::kNoData && is_absent(record, alert)) continue;
      const bool known =
          std::any_of(report.alerts.begin(), report.alerts.end(), [&](const auto& earlier) { return earlier.machine == alert.machine; });
      if (!known) report.alerts.push_back(alert);
    }
  }
  report.calls = record.seconds, report.call_seconds = {watch.seconds() / static_cast<double>(record.seconds)};
  report.silent = detect::silences(record, options.silent_s);
  return report;
}

ordered_json json_of(const detect::Alert& alert) {
  return {{"machine", alert.machine},        {"metric", alert.metric}, {"first_second", alert.first_s},
          {"raised_second", alert.raised_s}, {"score", alert.score},   {"peers", alert.peers}};
}

ordered_json json_of(const detect::RunReport& report, const detect::Pull& record) {
  ordered_json alerts = ordered_json::array(), silent = ordered_json::array();
  for (const detect::Alert& alert : report.alerts) alerts.push_back(json_of(alert));
  for (const detect::Silence& each : report.silent)
    silent.push_back({{"machine", record.machines[static_cast<size_t>(each.machine)]},
                      {"metric", detect::metrics()[each.metric].name},
                      {"since_second", each.since_s}});
  return {{"alerts", alerts},
          {"silent", silent},
          {"not_judged", report.not_judged},
          {"machines", record.machines.size()},
          {"seconds", record.seconds},
          {"first_second", record.first_s},
          {"calls", report.calls},
          {"call_seconds", report.call_seconds},
          {"filled", record.statistics.filled},
          {"without_data", record.statistics.without_data},
          {"clamped", record.statistics.clamped}};
}

std::string text_of(const detect::RunReport& report, const detect::Pull& record) {
  std::string text;
  if (report.alerts.empty()) {
    text = fmt::format("No machine of {} stands apart.\n", record.machines.size());
  } else {
    observe::Table table(
        "alerts",
        {{"machine"}, {"metric"}, {"since second", Align::kRight}, {"told at", Align::kRight}, {"score", Align::kRight}, {"peers"}});
    for (const detect::Alert& alert : report.alerts)
      table.row({printable(alert.machine), alert.metric, fmt::format("{:.0f}", alert.first_s), fmt::format("{:.0f}", alert.raised_s),
                 fmt::format("{:.2f}", alert.score), printable(alert.peers)});
    text = table.text(colours_wanted(stdout));
  }
  for (size_t i = 0; i < report.silent.size() && i < 20; ++i) {
    const detect::Silence& each = report.silent[i];
    text += fmt::format("no data: {} sent no {} after second {:.0f}\n", printable(record.machines[static_cast<size_t>(each.machine)]),
                        detect::metrics()[each.metric].name, each.since_s);
  }
  if (report.silent.size() > 20) text += fmt::format("no data: {} more\n", report.silent.size() - 20);
  for (const std::string& sentence : report.not_judged) text += "not judged: " + sentence + "\n";
  const auto cells = static_cast<double>(record.values.size());
  return text + fmt::format("{} of {} over {}; {:.2f} % of the samples were filled in from neighbours, {:.2f} % have no data\n",
                            counted(report.calls, "call"), counted(record.count(), "machine"), counted(record.seconds, "second"),
                            100 * static_cast<double>(record.statistics.filled) / cells,
                            100 * static_cast<double>(record.statistics.without_data) / cells);
}

struct RunArguments {
  LookArguments look;
  std::string folder, prometheus, label = "instance", page, suspect, command;
  std::vector<std::string> queries;
  double end_s = 0;
  int64_t most_an_hour = 2;
  bool timing = false, follow = false;
};

detect::RunSamples read_record(const RunArguments& arguments, const detect::Models& models) {
  const std::vector<size_t> wanted = arguments.look.metrics.empty() ? models.metrics : detect::metric_choice(arguments.look.metrics);
  if (arguments.prometheus.empty() == arguments.folder.empty()) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "where are the metrics?",
                 .expected = "a run, a folder of CSV files, or --prometheus http://HOST:PORT",
                 .found = arguments.folder.empty() ? "neither" : "both",
                 .hint = program_command("detect run --help")});
  }
  if (!arguments.folder.empty()) {
    detect::RunTime time{.now_s = wall_time_s()};
    if (arguments.end_s > 0) time.end_s = arguments.end_s, time.now_s = 0;
    if (arguments.follow) time.seconds = arguments.look.pull_s;  // what was told before is not told again
    return detect::read_samples(arguments.folder, wanted, {.limits = models.limits}, time);
  }
  const double end = arguments.end_s > 0 ? arguments.end_s : wall_time_s();
  const detect::PrometheusSource source{
      .url = arguments.prometheus, .label = arguments.label, .queries = detect::queries_of(arguments.queries)};
  const auto series = detect::read_prometheus(source, wanted, end - static_cast<double>(arguments.look.pull_s) + 1, end);
  return {.pull = detect::aligned(series, wanted, {.limits = models.limits})};
}

void write_page(const RunArguments& arguments, const detect::Pull& record, const detect::RunReport& report, const detect::Models& models) {
  std::string suspect = arguments.suspect;
  if (suspect.empty()) suspect = report.alerts.empty() ? record.machines.front() : report.alerts.front().machine;
  if (std::find(record.machines.begin(), record.machines.end(), suspect) == record.machines.end()) {
    const std::string nearest = nearest_spelling(suspect, record.machines);
    throw Error({.code = ExitCode::kUsage,
                 .what = "no such machine",
                 .found = suspect,
                 .where = "--suspect",
                 .hint = nearest.empty() ? "" : "did you mean " + nearest + "?"});
  }
  const std::filesystem::path out = arguments.page;
  if (out.has_parent_path()) make_folders(out.parent_path());
  write_text_atomically(
      out, detect::suspect_page(record, report, suspect, models, arguments.folder.empty() ? arguments.prometheus : arguments.folder));
}

void run_once(const RunArguments& arguments, const detect::Models& models, detect::Responder* responder) {
  const Stopwatch reading;
  const detect::RunSamples samples = read_record(arguments, models);
  const detect::Pull& record = samples.pull;
  const double read_s = reading.seconds();
  detect::RunReport report = looked(record, models, arguments.look);
  report.not_judged.insert(report.not_judged.end(), samples.remarks.begin(), samples.remarks.end());
  ordered_json json = json_of(report, record);
  std::string text = text_of(report, record);
  for (const detect::Alert& alert : report.alerts) {
    if (responder == nullptr) break;
    const std::string done = detect::text_of(responder->act_on(alert));
    text += done + "\n", json["actions"].push_back(done);
  }
  if (!arguments.page.empty()) {
    write_page(arguments, record, report, models);
    text += arguments.page + "\n";
  }
  if (arguments.timing) {
    const double slowest = *std::max_element(report.call_seconds.begin(), report.call_seconds.end());
    json["timing"] = {{"read_and_align_seconds", read_s}, {"slowest_call_seconds", slowest}, {"loops", detect::vector_loops_name()}};
    text += fmt::format("reading and aligning {:.3f} s; slowest call {:.3f} s ({})\n", read_s, slowest, detect::vector_loops_name());
  }
  if (arguments.look.json)
    print_json(json);
  else
    print(text);
}

ExitCode run_detect(const RunArguments& arguments) {
  const detect::Models models = detect::load_models(arguments.look.models);
  detect::CommandDriver driver(arguments.command);
  detect::Responder responder(driver, arguments.most_an_hour);
  do {
    run_once(arguments, models, arguments.command.empty() ? nullptr : &responder);
  } while (arguments.follow && pause_unless_stopped(static_cast<double>(arguments.look.every_s)));
  return ExitCode::kDone;
}

ordered_json json_of(const detect::Tally& tally) {
  const detect::Interval precision = detect::wilson(tally.found, tally.found + tally.false_alarms),
                         recall = detect::wilson(tally.found, tally.faults);
  return {{"cases", tally.cases},
          {"faults", tally.faults},
          {"found", tally.found},
          {"missed", tally.missed},
          {"false_alarms", tally.false_alarms},
          {"named_by_group", tally.by_group},
          {"precision", tally.precision()},
          {"recall", tally.recall()},
          {"f1", tally.f1()},
          {"ceiling", tally.ceiling()},
          {"ceiling_f1", tally.ceiling_f1()},
          {"precision_95", {precision.low, precision.high}},
          {"recall_95", {recall.low, recall.high}},
          {"median_seconds_to_alert", median(tally.delays)}};
}

std::string score_type(const detect::Verdict& verdict) { return verdict.type; }
std::string score_size(const detect::Verdict& verdict) { return fmt::format("{} machines", verdict.machines); }
std::string score_life(const detect::Verdict& verdict) {
  return verdict.type == "none"  ? "no fault"
         : verdict.episodes == 1 ? "1 fault"
         : verdict.episodes == 2 ? "2 faults"
         : verdict.episodes <= 5 ? "3 to 5 faults"
                                 : "over 5 faults";
}

ExitCode run_score(const LookArguments& look, const std::vector<std::string>& folders) {
  const detect::Models models = detect::load_models(look.models);
  const std::vector<size_t> wanted = look.metrics.empty() ? models.metrics : detect::metric_choice(look.metrics);
  const auto cases = detect::case_folders(folders);
  std::vector<detect::Verdict> verdicts;
  std::vector<double> call_seconds;
  Progress progress("scoring", static_cast<int64_t>(cases.size()));
  for (const auto& folder : cases) {
    const auto truth = detect::read_truth(folder);
    if (!truth)
      throw Error({.code = ExitCode::kData,
                   .what = "a case has no truth to score against",
                   .expected = "truth.json",
                   .where = folder.string(),
                   .hint = program_command("detect run " + shell_quoted(folder.string()) + " --models " + shell_quoted(look.models))});
    const detect::Pull record = detect::read_samples(folder, wanted, {.limits = models.limits}).pull;
    const detect::RunReport report = looked(record, models, look);
    for (const detect::Verdict& verdict : detect::verdicts_of(truth->faults, truth->machines, report.alerts, wanted, look.continuity_s + 8))
      verdicts.push_back(verdict);
    call_seconds.insert(call_seconds.end(), report.call_seconds.begin(), report.call_seconds.end());
    progress.advance(1);
  }
  const detect::Tally all = detect::tally_of(verdicts);
  std::sort(call_seconds.begin(), call_seconds.end());
  const double mean = std::accumulate(call_seconds.begin(), call_seconds.end(), 0.0) / static_cast<double>(call_seconds.size());
  const double late = call_seconds[static_cast<size_t>(0.99 * static_cast<double>(call_seconds.size() - 1))];
  const auto parts = {std::pair{"by_type", &score_type}, {"by_machines", &score_size}, {"by_faults_in_life", &score_life}};
  if (look.json) {
    ordered_json json = json_of(all);
    for (const auto& [name, key] : parts) {
      for (const auto& [value, tally] : detect::tally_by(verdicts, key)) json[name][value] = json_of(tally);
    }
    json["call_seconds"] = {{"mean", mean}, {"p99", late}};
    print_json(json);
    return ExitCode::kDone;
  }
  observe::Table table("", {{"cases"},
                            {"number", Align::kRight},
                            {"found", Align::kRight},
                            {"missed", Align::kRight},
                            {"false alarms", Align::kRight},
                            {"precision", Align::kRight},
                            {"recall", Align::kRight},
                            {"F1", Align::kRight},
                            {"ceiling", Align::kRight},
                            {"to alert", Align::kRight}});
  const auto cells = [](const std::string& name, const detect::Tally& tally) -> std::vector<std::string> {
    const auto share = [&](double value) { return tally.faults > 0 ? fmt::format("{:.3f}", value) : ""; };
    return {name,
            fmt::format("{}", tally.cases),
            fmt::format("{}", tally.found),
            fmt::format("{}", tally.missed),
            fmt::format("{}", tally.false_alarms),
            share(tally.precision()),
            share(tally.recall()),
            share(tally.f1()),
            share(tally.ceiling()),
            tally.delays.empty() ? "" : fmt::format("{:.0f} s", median(tally.delays))};
  };
  for (const auto& [name, key] : parts) {
    for (const auto& [value, tally] : detect::tally_by(verdicts, key)) table.row(cells(value, tally));
  }
  table.total(cells("all", all));
  const detect::Interval precision = detect::wilson(all.found, all.found + all.false_alarms),
                         recall = detect::wilson(all.found, all.faults);
  print(table.text(colours_wanted(stdout)));
  print(fmt::format(
      "\n95 % intervals: precision {:.3f} to {:.3f}, recall {:.3f} to {:.3f}. The ceiling is the recall of a detector that misses only faults shorter than {} s or\n"
      "without any trace in the metrics. A call took {:.0f} ms, one in a hundred {:.0f} ms or more.\n",
      precision.low, precision.high, recall.low, recall.high, look.continuity_s + 8, 1e3 * mean, 1e3 * late));
  return ExitCode::kDone;
}

}  // namespace

void add_detect_run(Command& detect_group) {
  auto arguments = std::make_shared<RunArguments>();
  Command run = detect_group.add(
      "run", "which machine differs from its peers, in the samples of a run, in recorded metrics or those of a Prometheus",
      {{"a folder of CSV files, and a page that shows the suspect", "detect run cases/one --models minder.safetensors --page suspect.html"},
       {"the last fifteen minutes of a cluster", "detect run --prometheus http://localhost:9090 --models minder.safetensors --json"},
       {"a run of `launch`, looked at every eight minutes", "detect run runs/big --models minder.safetensors --follow"}});
  run.option("DIR", arguments->folder,
             "folder of a run that `launch` started, or one with a CSV file a metric: time, then a column a machine");
  run.option("--prometheus", arguments->prometheus, "address of a Prometheus instead: http://HOST:PORT");
  run.option("--query", arguments->queries, "PromQL for a metric, one value a machine: METRIC=PROMQL; repeated");
  run.option("--label", arguments->label, "label that names the machine").default_shown();
  run.option("--end", arguments->end_s, "the last second to look at, in Unix time (default: now)").at_least(0);
  run.option("--page", arguments->page, "write a page that shows the suspect's metrics against the others'");
  run.option("--suspect", arguments->suspect, "the machine on the page (default: that of the first alert)");
  run.option("--on-alert", arguments->command, "program that is called as `block MACHINE METRIC SECOND`, then `replace MACHINE`");
  run.option("--most-an-hour", arguments->most_an_hour, "machines that it may be called for").at_least(1).default_shown();
  run.flag("--follow", arguments->follow, "go on calling, every --every seconds, until Ctrl-C");
  run.flag("--timing", arguments->timing, "say how long reading and calls took");
  arguments->look.declare(run);
  run.on_run([arguments] { return run_detect(*arguments); });
}

void add_detect_score(Command& detect_group) {
  struct Arguments {
    LookArguments look;
    std::vector<std::string> folders;
  };
  auto arguments = std::make_shared<Arguments>();
  Command score = detect_group.add("score", "precision, recall and F1 on cases whose truth is known",
                                   {{"cases that training never saw", "detect score cases/test --models minder.safetensors"},
                                    {"without denoising", "detect score cases/test --models minder.safetensors --variant raw"},
                                    {"for a script", "detect score cases/test --models minder.safetensors --json"}});
  score.option("DIR", arguments->folders, "folders with metrics and truth.json, or folders of such folders").required();
  arguments->look.declare(score);
  score.on_run([arguments] { return run_score(arguments->look, arguments->folders); });
}

}  // namespace longhaul::cli
