// `longhaul detect trial`: precision and recall on simulated cases, of every variant, with their spread over
// seeds.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/files/file.h"
#include "base/statistics.h"
#include "base/terminal.h"
#include "cli/command.h"
#include "cli/output.h"
#include "detect/trials/trial.h"
#include "detect/trials/trial_page.h"
#include "observe/table.h"

namespace longhaul::cli {
namespace {

using nlohmann::ordered_json;

struct Spread {
  double mean = 0, low = 0, high = 0;
};

Spread spread_of(const detect::TrialRow& row, double (detect::Tally::*figure)() const) {
  Spread spread{0, 1, 0};
  for (const detect::Tally& tally : row.seeds) {
    const double value = (tally.*figure)();
    spread.mean += value / static_cast<double>(row.seeds.size());
    spread.low = std::min(spread.low, value), spread.high = std::max(spread.high, value);
  }
  return spread;
}

std::string spread_cell(const Spread& spread) {
  return fmt::format("{:.3f} ({:.3f}–{:.3f})", spread.mean, spread.low, spread.high);
}
ordered_json spread_json(const Spread& spread) {
  return {{"mean", spread.mean}, {"low", spread.low}, {"high", spread.high}};
}

std::string breakdown(const detect::TrialRow& row, const char* title,
                      std::string (*key)(const detect::Verdict&)) {
  observe::Table table(fmt::format("{} by {}", row.name, title),
                       {{title},
                        {"cases", observe::Align::kRight},
                        {"precision", observe::Align::kRight},
                        {"recall", observe::Align::kRight},
                        {"ceiling", observe::Align::kRight},
                        {"seconds to alert", observe::Align::kRight}});
  for (const auto& [name, tally] : detect::tally_by(row.verdicts, key)) {
    const bool faults = tally.faults > 0;
    table.row(
        {name, fmt::format("{}", tally.cases),
         faults ? fmt::format("{:.3f}", tally.precision()) : fmt::format("{} false", tally.false_alarms),
         faults ? fmt::format("{:.3f}", tally.recall()) : "",
         faults ? fmt::format("{:.3f}", tally.ceiling()) : "",
         !tally.delays.empty() ? fmt::format("{:.0f}", median(tally.delays)) : ""});
  }
  return table.text(colours_wanted(stdout));
}

std::string trial_text(const detect::TrialReport& report) {
  using observe::Align;
  observe::Table table("mean over seeds (least–most)", {{"detector"},
                                                        {"precision", Align::kRight},
                                                        {"recall", Align::kRight},
                                                        {"F1", Align::kRight},
                                                        {"call", Align::kRight}});
  for (const detect::TrialRow& row : report.rows) {
    table.row({row.name, spread_cell(spread_of(row, &detect::Tally::precision)),
               spread_cell(spread_of(row, &detect::Tally::recall)),
               spread_cell(spread_of(row, &detect::Tally::f1)),
               fmt::format("{:.0f} ms", 1e3 * median(row.call_seconds))});
  }
  table.total({"ceiling of these cases", "1.000",
               spread_cell(spread_of(report.rows.front(), &detect::Tally::ceiling)),
               spread_cell(spread_of(report.rows.front(), &detect::Tally::ceiling_f1)), ""});
  table.row({"the paper's, on its own data", "0.904", "0.883", "0.893", ""});
  std::string text = table.text(colours_wanted(stdout)) + "\n";
  text += breakdown(report.rows.front(), "fault type", detect::fault_of) + "\n" +
          breakdown(report.rows.front(), "machines", detect::machines_of) + "\n";
  if (std::ranges::any_of(report.rows.front().verdicts,
                          [](const auto& verdict) { return verdict.episodes > 1; }))
    text += breakdown(report.rows.front(), "faults in a life", detect::life_of) + "\n";
  for (size_t i = 1; i < report.rows.size(); ++i) {
    const detect::Paired paired = detect::mcnemar(report.rows.front().verdicts, report.rows[i].verdicts);
    text += fmt::format("{} alone right in {}, {} alone right in {} (McNemar p = {:.2g})\n",
                        report.rows.front().name, paired.only_first, report.rows[i].name, paired.only_second,
                        paired.p);
  }
  for (const std::string& shapes : report.mahalanobis) text += "chosen on validation: " + shapes + "\n";
  return text + fmt::format(
                    "training of all models: {:.0f} s at most; the least a denoiser kept of its metric's "
                    "variance: {:.2f}\n",
                    report.train_seconds, report.worst_retained);
}

ordered_json trial_json(const detect::TrialReport& report) {
  ordered_json rows = ordered_json::array();
  for (const detect::TrialRow& row : report.rows) {
    const detect::Paired paired = detect::mcnemar(report.rows.front().verdicts, row.verdicts);
    const detect::Tally all = detect::tally_of(row.verdicts);
    const detect::Interval precision = detect::wilson(all.found, all.found + all.false_alarms),
                           recall = detect::wilson(all.found, all.faults);
    rows.push_back({{"name", row.name},
                    {"precision", spread_json(spread_of(row, &detect::Tally::precision))},
                    {"recall", spread_json(spread_of(row, &detect::Tally::recall))},
                    {"f1", spread_json(spread_of(row, &detect::Tally::f1))},
                    {"ceiling", spread_json(spread_of(row, &detect::Tally::ceiling))},
                    {"precision_95", {precision.low, precision.high}},
                    {"recall_95", {recall.low, recall.high}},
                    {"median_seconds_to_alert", median(all.delays)},
                    {"median_call_seconds", median(row.call_seconds)},
                    {"cases", all.cases},
                    {"faults", all.faults},
                    {"found", all.found},
                    {"false_alarms", all.false_alarms},
                    {"detectable", all.detectable},
                    {"right_where_first_is_not", paired.only_second},
                    {"wrong_where_first_is_right", paired.only_first},
                    {"mcnemar_p", paired.p}});
  }
  return {{"rows", rows},
          {"mahalanobis", report.mahalanobis},
          {"train_seconds", report.train_seconds},
          {"worst_retained", report.worst_retained}};
}

}  // namespace

void add_detect_trial(Command& detect_group) {
  struct Arguments {
    detect::TrialOptions options;
    bool json = false, production = false;
    std::string page;
  };
  auto arguments = std::make_shared<Arguments>();
  detect::TrialOptions& options = arguments->options;
  Command trial = detect_group.add(
      "trial",
      "precision and recall on simulated cases, of Minder and what it is compared with, over several seeds",
      {{"the whole comparison (half an hour)", "detect trial --seeds 5"},
       {"a quick look", "detect trial --seeds 1 --test 40 --steps 1000 --row minder --row raw"},
       {"up to 1,500 machines, sensors with glitches",
        "detect trial --large --glitches --row minder --row raw --json"}});
  trial.option("--seeds", options.seeds, "repetitions, each with models and cases of its own")
      .at_least(1)
      .at_most(100)
      .default_shown();
  trial.option("--first-seed", options.first_seed, "of them: for trials in parts")
      .at_least(1)
      .at_most(1'000'000)
      .default_shown();
  trial.option("--train", options.train, "cases that models are trained on").at_least(2).default_shown();
  trial.option("--validate", options.validate, "cases that thresholds are chosen on")
      .at_least(4)
      .default_shown();
  trial.option("--test", options.test, "cases that are scored; half have a fault")
      .at_least(2)
      .default_shown();
  trial.option("--steps", options.training.steps, "of training, a model").at_least(10).default_shown();
  trial.option("--beta", options.training.beta, "weight of the KL term").above(0).default_shown();
  trial.option("--row", options.rows, "what to compare, repeated: all unless given")
      .one_of(detect::trial_rows());
  trial.flag("--large", options.large, "test cases of 8 to 1,500 machines in place of 8 to 64");
  trial.flag("--glitches", options.glitches, "two samples in a hundred are wrong (regime B)");
  trial.flag("--shifted", options.shifted,
             "test cases with periods, noise, severities and (without --large) numbers of machines that "
             "training never had");
  trial.option("--hold-out", options.held_out,
               "a fault's type that neither training nor validation has, and every fault of the tests is");
  trial.flag("--lives", options.lives,
             "test cases of 1, 2, 4 and 6 faults one after the other, in calls every eight minutes");
  trial.flag("--production-mix", arguments->production,
             "fault types by their share in production, not in the paper's test set");
  trial.option("--page", arguments->page, "write a page (HTML) with the figures as pictures");
  trial.json_flag(arguments->json);
  trial.on_run([arguments] {
    arguments->options.evaluation_mix = !arguments->production;
    const detect::TrialReport report = detect::run_trial(arguments->options);
    if (!arguments->page.empty())
      write_text_atomically(arguments->page, detect::trial_page(report, "Detectors on simulated cases"));
    if (arguments->json)
      print_json(trial_json(report));
    else
      print(trial_text(report));
    return ExitCode::kDone;
  });
}

}  // namespace longhaul::cli
