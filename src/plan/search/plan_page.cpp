#include "plan/search/plan_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/progress.h"
#include "observe/charts/chart.h"
#include "observe/charts/heat_map.h"
#include "observe/charts/stacked_bars.h"
#include "observe/format.h"

namespace longhaul::plan {
namespace {

constexpr size_t kShown = 10;  // bars of a picture

std::string step_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.1f} ms", 1e3 * seconds) : fmt::format("{:.3f} s", seconds);
}

// Parts of a step that a picture can tell apart.
struct PagePart {
  observe::StackedPart drawn;
  std::vector<double StepParts::*> of;
};
const std::vector<PagePart>& page_parts() {
  using P = StepParts;
  static const std::vector<PagePart> all = {
      {{"matrix products", "train"}, {&P::products}},
      {{"attention, recurrences", "train", 0.5}, {&P::attention, &P::recurrence}},
      {{"elementwise, launching", "gzip"}, {&P::elementwise, &P::layer_overhead}},
      {{"recomputation, offload", "gzip", 0.5}, {&P::recomputation, &P::offload}},
      {{"output head", "xz"}, {&P::head}},
      {{"exchanges in layers", "resume"}, {&P::tensor_exchange, &P::context_exchange, &P::expert_exchange}},
      {{"pipeline messages", "eval", 0.5}, {&P::pipeline_exchange}},
      {{"pipeline bubble", "eval"}, {&P::bubble}},
      {{"gradients and weights", "bad"}, {&P::gradients}},
      {{"update, of every step", "save"}, {&P::update, &P::fixed}},
  };
  return all;
}

observe::StackedBars times_of(const SearchResult& found) {
  const bool seconds = found.best.front().seconds >= 1;
  observe::StackedBars bars{.title = "Time of a step",
                            .caption = "By part, the fastest layout first.",
                            .unit = seconds ? "s" : "ms"};
  for (const PagePart& part : page_parts()) bars.parts.push_back(part.drawn);
  for (size_t i = 0; i < std::min(kShown, found.best.size()); ++i) {
    const PlanCandidate& plan = found.best[i];
    observe::StackedBar bar{.name = plan.layout.text(), .values = {}, .total = step_text(plan.seconds)};
    for (const PagePart& part : page_parts()) {
      double sum = 0;
      for (double StepParts::*member : part.of) sum += plan.parts.*member;
      bar.values.push_back(sum * (seconds ? 1 : 1e3));
    }
    bars.bars.push_back(std::move(bar));
  }
  return bars;
}

observe::StackedBars memory_of(const PlanReport& report) {
  observe::StackedBars bars{
      .title = "Memory of the fullest rank",
      .caption = "By purpose, of the same layouts.",
      .unit = "GB",
      .parts = {{"weights", "train"},
                {"gradients", "eval"},
                {"optimizer state", "gzip"},
                {"activations", "xz"},
                {"output head", "resume"},
                {"reserved", "save", 0.5}},
      .bars = {},
      .limit = report.cluster.device.memory_bytes * 1e-9,
      .limit_name = fmt::format("what a device has: {:.3g} GB", report.cluster.device.memory_bytes * 1e-9)};
  for (size_t i = 0; i < std::min(kShown, report.found.best.size()); ++i) {
    const PlanCandidate& plan = report.found.best[i];
    observe::StackedBar bar{.name = plan.layout.text(),
                            .values = {},
                            .total = fmt::format("{:.1f} GB", 1e-9 * plan.memory.total())};
    for (const auto& [name, bytes] : plan.memory.rows()) bar.values.push_back(1e-9 * bytes);
    bars.bars.push_back(std::move(bar));
  }
  return bars;
}

std::string layouts_table(const PlanReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const PlanCandidate& plan : report.found.best) {
    rows.push_back({plan.layout.text(), step_text(plan.seconds), observe::percent(plan.mfu),
                    observe::grouped(plan.tokens_per_second), bytes_text(whole_bytes(plan.memory.total()))});
  }
  return observe::page_table("Layouts", "", {"layout", "step", "MFU", "tokens/s", "memory"}, 1, rows);
}

std::string rejected_table(const SearchResult& found) {
  std::vector<std::vector<std::string>> rows;
  for (const Rejected& row : found.rejected)
    rows.push_back({row.reason, row.example, observe::grouped(static_cast<double>(row.layouts))});
  return observe::page_table(
      "Why others fell",
      fmt::format("Of {} layouts tried.", observe::grouped(static_cast<double>(found.tried))),
      {"reason", "for example", "layouts"}, 2, rows);
}

}  // namespace

std::string plan_page(const PlanReport& report) {
  observe::ResultPage page{
      .title = report.recipe,
      .kicker = "plan",
      .summary = fmt::format("{} × {}, {} sequences of {} tokens a step.",
                             observe::grouped(static_cast<double>(report.cluster.gpus)),
                             report.cluster.device.name, observe::grouped(static_cast<double>(report.batch)),
                             observe::grouped(report.work.sequence)),
      .tiles = {},
      .maps = {},
      .body = {},
      .facts = {},
      .facts_title = "What it stands on"};
  if (report.found.best.empty()) {
    page.body = "<p class=\"note\">No layout of this model can be on this cluster.</p>\n" +
                rejected_table(report.found);
    return page.html();
  }
  const PlanCandidate& best = report.found.best.front();
  const Goodput goodput = goodput_of(report.cluster, report.tokens, best.tokens_per_second);
  page.tiles = {
      {"The fastest step", step_text(best.seconds)},
      {"Model FLOPs over the peak", observe::percent(best.mfu)},
      {"Tokens a second", observe::compact(best.tokens_per_second)},
      {"Memory of the fullest rank", bytes_text(whole_bytes(best.memory.total()))},
      {fmt::format("{} tokens take", observe::compact(report.tokens)), days_text(86400 * goodput.days)}};
  page.body = times_of(report.found).html() + memory_of(report).html() + layouts_table(report) +
              rejected_table(report.found);
  page.facts = {{"efficiencies", report.cluster.efficiency.source},
                {"accelerator", report.cluster.device.source},
                {"failures", fmt::format("{:.1f} % of the time is useful where a node fails {:g} times a day",
                                         100 * goodput.effective, report.cluster.failures_per_node_day)},
                {"how far to trust it",
                 "docs/guides/plan.md; plan validate sets published steps beside predicted ones"}};
  return page.html();
}

}  // namespace longhaul::plan
