// `longhaul detect score`.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/files/file.h"
#include "base/progress.h"
#include "base/statistics.h"
#include "base/terminal.h"
#include "base/text/text.h"
#include "cli/command.h"
#include "cli/detect/detect_look.h"
#include "cli/output.h"
#include "detect/samples/run_samples.h"
#include "detect/trials/case_files.h"
#include "detect/trials/trial_page.h"
#include "observe/table.h"

namespace longhaul::cli {
namespace {

using nlohmann::ordered_json;
using observe::Align;

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

std::string score_size(const detect::Verdict& verdict) {
  return fmt::format("{} machines", verdict.machines);
}

ExitCode run_score(const LookArguments& look, const std::vector<std::string>& folders,
                   const std::string& page) {
  const detect::Models models = detect::load_models(look.models);
  const std::vector<size_t> wanted =
      look.metrics.empty() ? models.metrics : detect::metric_choice(look.metrics);
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
                   .hint = program_command("detect run " + shell_quoted(folder.string()) + " --models " +
                                           shell_quoted(look.models))});
    const detect::Pull record = detect::read_samples(folder, wanted, {.limits = models.limits}).pull;
    const detect::RunReport report = looked(record, models, look);
    for (const detect::Verdict& verdict :
         detect::verdicts_of(truth->faults, truth->machines, report.alerts, wanted, look.continuity_s + 8))
      verdicts.push_back(verdict);
    call_seconds.insert(call_seconds.end(), report.call_seconds.begin(), report.call_seconds.end());
    progress.advance(1);
  }
  if (!page.empty()) write_text_atomically(page, detect::score_page(verdicts, "Scores of " + look.models));
  const detect::Tally all = detect::tally_of(verdicts);
  std::sort(call_seconds.begin(), call_seconds.end());
  const double mean = std::accumulate(call_seconds.begin(), call_seconds.end(), 0.0) /
                      static_cast<double>(call_seconds.size());
  const double late = call_seconds[static_cast<size_t>(0.99 * static_cast<double>(call_seconds.size() - 1))];
  const auto parts = {std::pair{"by_type", &detect::fault_of},
                      {"by_machines", &score_size},
                      {"by_faults_in_life", &detect::life_of}};
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
      "\n95 % intervals: precision {:.3f} to {:.3f}, recall {:.3f} to {:.3f}. The ceiling is the recall of a "
      "detector that misses only faults shorter than {} s or\n"
      "without any trace in the metrics. A call took {:.0f} ms, one in a hundred {:.0f} ms or more.\n",
      precision.low, precision.high, recall.low, recall.high, look.continuity_s + 8, 1e3 * mean, 1e3 * late));
  return ExitCode::kDone;
}

}  // namespace

void add_detect_score(Command& detect_group) {
  struct Arguments {
    LookArguments look;
    std::vector<std::string> folders;
    std::string page;
  };
  auto arguments = std::make_shared<Arguments>();
  Command score = detect_group.add(
      "score", "precision, recall and F1 on cases whose truth is known",
      {{"cases that training never saw", "detect score cases/test --models minder.safetensors"},
       {"without denoising", "detect score cases/test --models minder.safetensors --variant raw"},
       {"for a script", "detect score cases/test --models minder.safetensors --json"}});
  score.option("DIR", arguments->folders, "folders with metrics and truth.json, or folders of such folders")
      .required();
  score.option("--page", arguments->page, "write a page (HTML) with the figures as pictures");
  arguments->look.declare(score);
  score.on_run([arguments] { return run_score(arguments->look, arguments->folders, arguments->page); });
}

}  // namespace longhaul::cli
