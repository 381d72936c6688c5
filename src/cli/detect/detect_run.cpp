// `longhaul detect run`.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "base/files/file.h"
#include "base/process/signals.h"
#include "base/terminal.h"
#include "base/text/text.h"
#include "cli/command.h"
#include "cli/detect/detect_look.h"
#include "cli/output.h"
#include "detect/minder/driver.h"
#include "detect/minder/follow.h"
#include "detect/minder/page.h"
#include "detect/samples/clocks.h"
#include "detect/samples/prometheus.h"
#include "detect/samples/run_samples.h"
#include "observe/table.h"

namespace longhaul::cli {
namespace {

using nlohmann::ordered_json;
using observe::Align;

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
    observe::Table table("alerts", {{"machine"},
                                    {"metric"},
                                    {"since second", Align::kRight},
                                    {"told at", Align::kRight},
                                    {"score", Align::kRight},
                                    {"peers"}});
    for (const detect::Alert& alert : report.alerts)
      table.row({printable(alert.machine), alert.metric, fmt::format("{:.0f}", alert.first_s),
                 fmt::format("{:.0f}", alert.raised_s), fmt::format("{:.2f}", alert.score),
                 printable(alert.peers)});
    text = table.text(colours_wanted(stdout));
  }
  for (size_t i = 0; i < report.silent.size() && i < 20; ++i) {
    const detect::Silence& each = report.silent[i];
    text += fmt::format("no data: {} sent no {} after second {:.0f}\n",
                        printable(record.machines[static_cast<size_t>(each.machine)]),
                        detect::metrics()[each.metric].name, each.since_s);
  }
  if (report.silent.size() > 20) text += fmt::format("no data: {} more\n", report.silent.size() - 20);
  for (const std::string& sentence : report.not_judged) text += "not judged: " + sentence + "\n";
  const auto cells = static_cast<double>(record.values.size());
  return text + fmt::format(
                    "{} of {} over {}; {:.2f} % of the samples were filled in from neighbours, {:.2f} % have "
                    "no data\n",
                    counted(report.calls, "call"), counted(record.count(), "machine"),
                    counted(record.seconds, "second"),
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

// from_s: the first second wanted; nothing: the last --pull seconds of what goes on, or all that a folder
// holds.
detect::RunSamples read_record(const RunArguments& arguments, const detect::Models& models,
                               std::optional<double> from_s = {}) {
  const std::vector<size_t> wanted =
      arguments.look.metrics.empty() ? models.metrics : detect::metric_choice(arguments.look.metrics);
  if (arguments.prometheus.empty() == arguments.folder.empty()) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "where are the metrics?",
                 .expected = "a run, a folder of CSV files, or --prometheus http://HOST:PORT",
                 .found = arguments.folder.empty() ? "neither" : "both",
                 .hint = program_command("detect run --help")});
  }
  const double now = arguments.end_s > 0 ? arguments.end_s : wall_time_s();
  if (!arguments.folder.empty()) {
    detect::RunTime time{.now_s = wall_time_s()};
    if (arguments.end_s > 0) time.end_s = arguments.end_s, time.now_s = 0;
    if (arguments.follow) time.seconds = arguments.look.pull_s;  // what was told before is not told again
    if (from_s)
      time.seconds = std::clamp<int64_t>(static_cast<int64_t>(now - *from_s) + 1, 1, detect::kRingSeconds);
    detect::RunSamples samples =
        detect::read_samples(arguments.folder, wanted, {.limits = models.limits}, time);
    // CSV files are read whole; a stream goes on behind what it has seen.
    detect::Pull& pull = samples.pull;
    const double last = pull.first_s + static_cast<double>(pull.seconds - 1);
    const double first = from_s             ? *from_s
                         : arguments.follow ? last - static_cast<double>(arguments.look.pull_s) + 1
                                            : pull.first_s;
    if (const auto skipped =
            std::clamp<int64_t>(static_cast<int64_t>(first - pull.first_s), 0, pull.seconds - 1);
        skipped > 0)
      pull = pull.part(skipped, pull.seconds - skipped);
    return samples;
  }
  const detect::PrometheusSource source{.url = arguments.prometheus,
                                        .label = arguments.label,
                                        .queries = detect::queries_of(arguments.queries)};
  const auto series = detect::read_prometheus(
      source, wanted, from_s.value_or(now - static_cast<double>(arguments.look.pull_s) + 1), now);
  return {.pull = detect::aligned(series, wanted, {.limits = models.limits})};
}

void write_page(const RunArguments& arguments, const detect::Pull& record, const detect::RunReport& report,
                const detect::Models& models) {
  std::string suspect = arguments.suspect;
  if (suspect.empty())
    suspect = report.alerts.empty() ? record.machines.front() : report.alerts.front().machine;
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
      out, detect::suspect_page(record, report, suspect, models,
                                arguments.folder.empty() ? arguments.prometheus : arguments.folder));
}

void run_once(const RunArguments& arguments, const detect::Models& models, detect::Responder* responder) {
  const Stopwatch reading;
  detect::RunSamples samples = read_record(arguments, models);
  for (const std::string& sentence : detect::move_clocks(samples.pull, detect::clock_lags(samples.pull)))
    samples.remarks.push_back(sentence);
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
    json["timing"] = {{"read_and_align_seconds", read_s},
                      {"slowest_call_seconds", slowest},
                      {"loops", detect::vector_loops_name()}};
    text += fmt::format("reading and aligning {:.3f} s; slowest call {:.3f} s ({})\n", read_s, slowest,
                        detect::vector_loops_name());
  }
  if (arguments.look.json)
    print_json(json);
  else
    print(text);
}

// As long as it is not stopped: what is new every few seconds; a line, or an object, where there is something
// to say.
void follow_stream(const RunArguments& arguments, const detect::Models& models,
                   detect::Responder* responder) {
  constexpr double kEvery_s = 10;
  detect::Follower follower(models, arguments.look.options(), [&](std::optional<double> from_s) {
    return read_record(arguments, models, from_s);
  });
  std::vector<std::string> said;
  do {
    const detect::Follower::News news = follower.more();
    ordered_json alerts = ordered_json::array(), remarks = ordered_json::array(),
                 actions = ordered_json::array();
    std::string text;
    for (const std::string& remark : news.remarks) {
      if (std::ranges::find(said, remark) != said.end()) continue;
      said.push_back(remark), remarks.push_back(remark), text += "not judged: " + remark + "\n";
    }
    for (const detect::Alert& alert : news.alerts) {
      alerts.push_back(json_of(alert));
      text += fmt::format("{}: furthest in {} since second {:.0f}, told at {:.0f}, score {:.2f}\n",
                          printable(alert.machine), alert.metric, alert.first_s, alert.raised_s, alert.score);
      if (responder == nullptr) continue;
      const detect::Response response = responder->act_on(alert);
      actions.push_back(detect::text_of(response)), text += detect::text_of(response) + "\n";
      if (response.kind == detect::Response::Kind::kReplaced) follower.replaced(alert.machine);
    }
    if (text.empty()) continue;
    if (arguments.look.json)
      print_json(
          {{"alerts", alerts}, {"not_judged", remarks}, {"actions", actions}, {"last_second", news.last_s}});
    else
      print(text);
  } while (pause_unless_stopped(std::min(kEvery_s, static_cast<double>(arguments.look.every_s))));
}

ExitCode run_detect(const RunArguments& arguments) {
  const detect::Models models = detect::load_models(arguments.look.models);
  detect::CommandDriver driver(arguments.command);
  detect::Responder responder(driver, arguments.most_an_hour);
  if (arguments.follow && arguments.look.stream) {
    follow_stream(arguments, models, arguments.command.empty() ? nullptr : &responder);
    return ExitCode::kDone;
  }
  do {
    run_once(arguments, models, arguments.command.empty() ? nullptr : &responder);
  } while (arguments.follow && pause_unless_stopped(static_cast<double>(arguments.look.every_s)));
  return ExitCode::kDone;
}

}  // namespace

void add_detect_run(Command& detect_group) {
  auto arguments = std::make_shared<RunArguments>();
  Command run =
      detect_group.add("run",
                       "which machine differs from its peers, in the samples of a run, in recorded metrics "
                       "or those of a Prometheus",
                       {{"a folder of CSV files, and a page that shows the suspect",
                         "detect run cases/one --models minder.safetensors --page suspect.html"},
                        {"the last fifteen minutes of a cluster",
                         "detect run --prometheus http://localhost:9090 --models minder.safetensors --json"},
                        {"a run of `launch`, looked at every eight minutes",
                         "detect run runs/big --models minder.safetensors --follow"}});
  run.option("DIR", arguments->folder,
             "folder of a run that `launch` started, or one with a CSV file a metric: time, then a column a "
             "machine");
  run.option("--prometheus", arguments->prometheus, "address of a Prometheus instead: http://HOST:PORT");
  run.option("--query", arguments->queries,
             "PromQL for a metric, one value a machine: METRIC=PROMQL; repeated");
  run.option("--label", arguments->label, "label that names the machine").default_shown();
  run.option("--end", arguments->end_s, "the last second to look at, in Unix time (default: now)")
      .at_least(0);
  run.option("--page", arguments->page, "write a page that shows the suspect's metrics against the others'");
  run.option("--suspect", arguments->suspect, "the machine on the page (default: that of the first alert)");
  run.option("--on-alert", arguments->command,
             "program that is called as `block MACHINE METRIC SECOND`, then `replace MACHINE`");
  run.option("--most-an-hour", arguments->most_an_hour, "machines that it may be called for")
      .at_least(1)
      .default_shown();
  run.flag("--follow", arguments->follow,
           "go on calling, every --every seconds, until Ctrl-C; with --stream: at least every ten, new "
           "seconds only");
  run.flag("--timing", arguments->timing, "say how long reading and calls took");
  arguments->look.declare(run);
  run.on_run([arguments] { return run_detect(*arguments); });
}

}  // namespace longhaul::cli
