#include <fmt/format.h>

#include "base/error.h"
#include "observe/charts/chart.h"
#include "observe/format.h"
#include "observe/report/report_page.h"
#include "plan/footprint/pictures.h"
#include "plan/footprint/run_footprint.h"

namespace longhaul::plan {
namespace {

using observe::html_escaped;

std::string page_of(const std::string& kicker, const std::string& title, const std::string& sentence,
                    const std::string& body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\">\n"
      "<title>{1} · Longhaul</title>\n<style>{0}</style></head>\n<body>\n<header><div "
      "class=\"kicker\">{2}</div><h1>{1}</h1><p>{3}</p></header>\n{4}"
      "<footer>Made by Longhaul. One standard deviation behind each ±. Method, sources and limits: "
      "docs/guides/footprint.md. The page is one file and needs "
      "nothing else.</footer>\n</body></html>\n",
      observe::kReportStyle, html_escaped(title), html_escaped(kicker), html_escaped(sentence), body);
}

std::string elements_table(const Footprint& f) {
  if (!f.input.inventory) return "";
  std::string html =
      "<section><h2>Materials</h2><div class=\"table\"><table><tr><th>element</th><th "
      "class=\"n\">kg</th><th>class</th><th>source</th></tr>\n";
  for (const ElementMass& row : f.input.inventory->elements) {
    html += fmt::format(
        "<tr><td>{}{}</td><td class=\"n\">{}</td><td class=\"dim\">{}</td><td class=\"dim\">{}</td></tr>\n",
        html_escaped(row.element), row.toxic ? ", toxic" : "", amount(row.grams * (f.lifetimes / 1000)),
        row.kind, html_escaped(row.source));
  }
  return html + "</table></div></section>\n";
}

std::string assumptions_table(const Footprint& f) {
  std::string html =
      "<section><h2>Assumptions</h2><div class=\"table\"><table><tr><th>constant</th><th "
      "class=\"n\">value</th><th>source</th></tr>\n";
  std::vector<Sourced> rows = f.input.assumptions;
  for (const Sourced* row :
       {&f.input.place.carbon, &f.input.place.pue, &f.input.place.water_on_site, &f.input.place.water_grid})
    rows.push_back(*row);
  for (const Sourced& row : rows) {
    html +=
        fmt::format("<tr><td class=\"c key\">{}</td><td class=\"n\">{}</td><td class=\"dim\">{}</td></tr>\n",
                    row.name, amount(row.value), html_escaped(row.source));
  }
  return html + "</table></div></section>\n";
}

std::string how_energy(const Footprint& f) {
  if (f.measured()) return "The energy was measured by the machine's own meters.";
  return f.input.planned ? "The energy is modelled."
                         : "The energy is modelled, not measured: the events have no meter's counts.";
}

}  // namespace

std::string footprint_page(const Footprint& f) {
  const std::string body =
      tiles_of(f) + (f.a100.lives >= 1 ? lifetimes_picture(lifetime_grid(f.input.spent_flops, 312e12)) : "") +
      carbon_by_grid(f) + "<section><h2>In figures</h2>" + rows_table(f) + "</section>\n" +
      elements_table(f) + assumptions_table(f);
  return page_of("footprint", f.input.title,
                 fmt::format("{} model FLOPs on {}. {}", observe::scientific(f.input.flops), f.input.device,
                             how_energy(f)),
                 body);
}

std::string comparison_page(const FootprintComparison& c) {
  const auto bars = [](const Footprint& a, const Footprint& b, auto value) {
    return std::vector<Bar>{{"first: " + a.input.title, value(a), "data"},
                            {"second: " + b.input.title, value(b), "forward"}};
  };
  const auto& [a, b] = c;
  std::string body = bars_picture(
      "Utilisation", "Share of the machine's measured peak that useful FLOPs took, in steps that count.", "%",
      bars(a, b, [](const Footprint& f) {
        return Uncertain{100 * f.input.mfu, 0};
      }));
  body += bars_picture("Lives of devices for a thousand million tokens",
                       "Time of the machine over a life: falls as 1 over utilisation.", "",
                       bars(a, b, [](const Footprint& f) {
                         return Uncertain{1e9 * f.lifetimes / f.input.tokens, 0};
                       }));
  body += bars_picture("Energy of a token", how_energy(b), "J",
                       bars(a, b, [](const Footprint& f) { return f.joules_per_token; }));
  for (const Footprint* f : {&a, &b}) {
    body += fmt::format("<section><h2>{}</h2>{}</section>\n", html_escaped(f->input.title), rows_table(*f));
  }
  return page_of("footprint of two runs", fmt::format("{} beside {}", b.input.title, a.input.title),
                 message_of(c), body);
}

std::string footprint_section(const std::filesystem::path& run, const std::vector<RunMachine>& machines) {
  try {
    RunAssumptions assumptions;
    assumptions.machines = machines;
    const Footprint f = run_footprint(run, assumptions);
    return fmt::format(
        "<section><h2>Footprint</h2><p class=\"note\">{} The place is not known: the world's means stand for "
        "it; <code>footprint run</code> takes "
        "others. Method and limits: docs/guides/footprint.md.</p>\n{}{}<details><summary>Every figure, and "
        "how it was come by</summary>{}</details></section>\n",
        how_energy(f), tiles_of(f), carbon_by_grid(f), rows_table(f));
  } catch (const Error& error) {
    return fmt::format("<section><h2>Footprint</h2><p class=\"note\">It cannot be told: {}</p></section>\n",
                       html_escaped(error.what()));
  }
}

}  // namespace longhaul::plan
