#include "detect/trials/trial_page.h"

#include <fmt/format.h>

#include <cmath>

#include "base/statistics.h"
#include "observe/charts/chart.h"
#include "observe/report/report_page.h"
#include "plan/footprint/pictures.h"

namespace longhaul::detect {
namespace {

using observe::html_escaped;
using plan::Bar;

// Minder, arXiv 2411.01791, on its authors' own data.
constexpr double kPaperPrecision = 0.904, kPaperRecall = 0.883, kPaperF1 = 0.893;

using Figure = double (Tally::*)() const;

plan::Uncertain over_seeds(const TrialRow& row, Figure figure) {
  double sum = 0, square = 0;
  const auto count = static_cast<double>(row.seeds.size());
  for (const Tally& tally : row.seeds)
    sum += (tally.*figure)(), square += (tally.*figure)() * (tally.*figure)();
  const double mean = sum / count;
  return {mean, std::sqrt(std::max(0.0, square / count - mean * mean))};
}

std::string picture_of(const TrialReport& report, const char* title, Figure figure, Figure ceiling,
                       double paper) {
  std::vector<Bar> bars;
  for (const TrialRow& row : report.rows) bars.push_back({row.name, over_seeds(row, figure), "forward"});
  if (ceiling != nullptr)
    bars.push_back({"ceiling of these cases", over_seeds(report.rows.front(), ceiling), "data"});
  bars.push_back({"the paper's, its own data", {paper, 0}, "backward"});
  return plan::bars_picture(title,
                            report.rows.front().seeds.size() > 1
                                ? "Mean over seeds; whiskers are one standard deviation over them."
                                : "Of one seed.",
                            "", bars);
}

std::string row_of(const std::string& name, const Tally& tally) {
  const bool faults = tally.faults > 0;
  const auto share = [&](double value) { return faults ? fmt::format("{:.3f}", value) : std::string(); };
  return fmt::format(
      "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
      "class=\"n\">{}</td><td class=\"n\">{}</td>"
      "<td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
      html_escaped(name), tally.cases, tally.false_alarms, share(tally.precision()), share(tally.recall()),
      share(tally.f1()), share(tally.ceiling()),
      tally.delays.empty() ? "" : fmt::format("{:.0f}", median(tally.delays)));
}

std::string breakdown_of(const std::vector<Verdict>& verdicts, const std::string& title,
                         std::string (*key)(const Verdict&)) {
  std::string html = fmt::format(
      "<section><h2>{}</h2><div class=\"table\"><table><tr><th></th><th class=\"n\">cases</th><th "
      "class=\"n\">false alarms</th><th "
      "class=\"n\">precision</th><th class=\"n\">recall</th><th class=\"n\">F1</th><th class=\"n\">ceiling "
      "of recall</th><th class=\"n\">seconds "
      "to alert</th></tr>\n",
      html_escaped(title));
  for (const auto& [name, tally] : tally_by(verdicts, key)) html += row_of(name, tally);
  return html + row_of("all", tally_of(verdicts)) + "</table></div></section>\n";
}

std::string breakdowns_of(const std::vector<Verdict>& verdicts, const std::string& whose) {
  return breakdown_of(verdicts, whose + " by machines", machines_of) +
         breakdown_of(verdicts, whose + " by fault", fault_of) +
         breakdown_of(verdicts, whose + " by faults in a life", life_of);
}

std::string page_of(const std::string& title, const std::string& sentence, const std::string& body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\">\n"
      "<title>{1} · Longhaul</title>\n<style>{0}</style></head>\n<body>\n<header><div "
      "class=\"kicker\">faulty machines</div><h1>{1}</h1><p>{2}</p>"
      "</header>\n{3}<footer>Simulated cases: no figure here is of a production cluster. The ceiling is the "
      "recall of a detector that misses only faults "
      "too short for its continuity or without any trace. docs/guides/detect.md has the "
      "method.</footer>\n</body></html>\n",
      observe::kReportStyle, html_escaped(title), html_escaped(sentence), body);
}

}  // namespace

std::string machines_of(const Verdict& verdict) { return fmt::format("{:>5}", verdict.machines); }
std::string fault_of(const Verdict& verdict) { return verdict.type; }
std::string life_of(const Verdict& verdict) {
  return verdict.type == "none"  ? "no fault"
         : verdict.episodes == 1 ? "1 fault"
         : verdict.episodes == 2 ? "2 faults"
         : verdict.episodes <= 5 ? "3 to 5 faults"
                                 : "over 5 faults";
}

std::string trial_page(const TrialReport& report, const std::string& title) {
  std::string body = picture_of(report, "F1", &Tally::f1, &Tally::ceiling_f1, kPaperF1);
  body += picture_of(report, "Precision", &Tally::precision, nullptr, kPaperPrecision);
  body += picture_of(report, "Recall", &Tally::recall, &Tally::ceiling, kPaperRecall);
  body += breakdowns_of(report.rows.front().verdicts, report.rows.front().name);
  const size_t cases = report.rows.front().verdicts.size();
  return page_of(title,
                 fmt::format("{} cases, {} seeds, {} detectors.", cases, report.rows.front().seeds.size(),
                             report.rows.size()),
                 body);
}

std::string score_page(const std::vector<Verdict>& verdicts, const std::string& title) {
  const Tally all = tally_of(verdicts);
  const auto bar = [](const char* name, double value, const char* style) {
    return Bar{name, {value, 0}, style};
  };
  std::string body = plan::bars_picture(
      "All cases", "Beside the ceiling of these cases and the paper's figures on its own data.", "",
      {bar("precision", all.precision(), "forward"), bar("the paper's", kPaperPrecision, "backward"),
       bar("recall", all.recall(), "forward"), bar("ceiling of recall", all.ceiling(), "data"),
       bar("the paper's", kPaperRecall, "backward"), bar("F1", all.f1(), "forward"),
       bar("ceiling of F1", all.ceiling_f1(), "data"), bar("the paper's", kPaperF1, "backward")});
  return page_of(title, fmt::format("{} cases, {} with a fault.", all.cases, all.faults),
                 body + breakdowns_of(verdicts, "Results"));
}

}  // namespace longhaul::detect
