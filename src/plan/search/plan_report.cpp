#include "plan/search/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/progress.h"
#include "observe/format.h"
#include "observe/table.h"
#include "plan/search/next_changes.h"
#include "plan/simulated.h"

namespace longhaul::plan {
namespace {

using nlohmann::ordered_json;
using observe::Align;

std::string seconds_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.1f} ms", 1e3 * seconds) : fmt::format("{:.3f} s", seconds);
}
std::string size_text(double bytes) { return bytes_text(whole_bytes(bytes)); }
std::string error_text(double ratio) { return fmt::format("{:+.1f} %", 100 * (ratio - 1)); }

std::string rounded(double value) {
  return value < 1000 ? fmt::format("{:.3g}", value) : observe::grouped(value);
}

// The parts with the highest cost, which explain the speed.
std::vector<std::string> reasons_of(const PlanCandidate& plan) {
  auto rows = plan.parts.rows();
  std::ranges::sort(rows, std::ranges::greater(), [](const auto& row) { return row.second; });
  std::vector<std::string> reasons;
  for (const auto& [name, seconds] : rows) {
    if (reasons.size() < 4 && seconds > 0.02 * plan.seconds)
      reasons.push_back(fmt::format("{} {:.0f} %", name, 100 * seconds / plan.seconds));
  }
  return reasons;
}

ordered_json json_of(const PlanLayout& layout) {
  return {{"dp", layout.dp},
          {"tp", layout.tp},
          {"pp", layout.pp},
          {"cp", layout.cp},
          {"ep", layout.ep},
          {"etp", layout.etp},
          {"zero", layout.zero},
          {"schedule", recipe::names_of(layout.schedule)[static_cast<size_t>(layout.schedule)]},
          {"chunks", layout.chunks},
          {"micro_batch", layout.micro_batch},
          {"recompute", recipe::names_of(layout.recompute)[static_cast<size_t>(layout.recompute)]},
          {"recompute_layers", layout.recompute_layers},
          {"offload", layout.offload}};
}

ordered_json json_of(const PlanCandidate& plan) {
  ordered_json parts = ordered_json::object(), memory = ordered_json::object();
  for (const auto& [name, seconds] : plan.parts.rows()) parts[name] = seconds;
  for (const auto& [name, bytes] : plan.memory.rows()) memory[name] = bytes;
  return {{"layout", json_of(plan.layout)},
          {"text", plan.layout.text()},
          {"step_seconds", plan.seconds},
          {"mfu", plan.mfu},
          {"tokens_per_second", plan.tokens_per_second},
          {"memory_bytes", whole_bytes(plan.memory.total())},
          {"reasons", reasons_of(plan)},
          {"step_seconds_by_part", parts},
          {"memory_bytes_by_purpose", memory}};
}

std::string rejected_text(const SearchResult& found, bool colours) {
  observe::Table table("why others fell", {{"reason"}, {"layouts", Align::kRight}, {"for example"}});
  for (const Rejected& row : found.rejected) table.row({row.reason, count_text(row.layouts), row.example});
  return table.text(colours);
}

std::string goodput_text(const PlanReport& report, const PlanCandidate& plan) {
  const Goodput goodput = goodput_of(report.cluster, report.tokens, plan.tokens_per_second);
  const Footprint footprint = footprint_of_plan(report.work, plan, report.cluster, report.tokens, goodput);
  std::string text =
      fmt::format("{} tokens take {}", observe::compact(report.tokens), days_text(86400 * goodput.days));
  if (goodput.interval_s > 0) {
    text += fmt::format(": a failure every {}, a checkpoint every {}, {:.1f} % of the time is useful",
                        days_text(goodput.mean_to_failure_s), duration_text(goodput.interval_s),
                        100 * goodput.effective);
  }
  if (goodput.price > 0) {
    text += fmt::format("; {} at {:g} an hour and device", observe::grouped(goodput.price),
                        report.cluster.price_per_gpu_hour);
  }
  const Uncertain& energy = footprint.energy_facility_kwh;
  const Uncertain& carbon = footprint.carbon_kg;
  return text + fmt::format(
                    ";\n{} kWh with cooling, ± {:.0f} %, {} kg CO2e, ± {:.0f} % (the world's mean; footprint "
                    "plan knows others).\n",
                    rounded(energy.value), 100 * energy.relative(), rounded(carbon.value),
                    100 * carbon.relative());
}

ordered_json goodput_json(const PlanReport& report, const PlanCandidate& plan) {
  const Goodput goodput = goodput_of(report.cluster, report.tokens, plan.tokens_per_second);
  const Footprint footprint = footprint_of_plan(report.work, plan, report.cluster, report.tokens, goodput);
  return {{"tokens", report.tokens},
          {"days", goodput.days},
          {"effective_share", goodput.effective},
          {"mean_to_failure_seconds", goodput.mean_to_failure_s},
          {"checkpoint_interval_seconds", goodput.interval_s},
          {"failures", goodput.failures},
          {"price", goodput.price},
          {"energy_facility_kwh", footprint.energy_facility_kwh.value},
          {"carbon_kg", footprint.carbon_kg.value}};
}

ordered_json head_of(const PlanReport& report) {
  return {{"recipe", report.recipe},
          {"cluster", report.cluster.name},
          {"device", report.cluster.device.name},
          {"gpus", report.cluster.gpus},
          {"batch", report.batch},
          {"sequence", report.work.sequence},
          {"efficiency",
           {{"products", report.cluster.efficiency.products},
            {"memory", report.cluster.efficiency.memory},
            {"layer_seconds", report.cluster.efficiency.layer_s},
            {"source", report.cluster.efficiency.source}}}};
}

// For people: of the batch and the cluster all changes that make a difference; of the layout the best few
// that fit, and fewer that fail only by memory.
std::vector<Change> told_changes(const std::vector<Change>& all, double tokens_per_second) {
  constexpr int kFitting = 8, kTooLarge = 3;
  int fitting = 0, large = 0;
  std::vector<Change> told;
  for (const Change& change : all) {
    const bool same = std::abs(change.candidate.tokens_per_second / tokens_per_second - 1) < 5e-4;
    if (change.of != Change::Of::kLayout ? !same
                                         : (change.fits ? ++fitting <= kFitting : ++large <= kTooLarge))
      told.push_back(change);
  }
  return told;
}

}  // namespace

std::string plan_text(const PlanReport& report, bool colours) {
  const SearchResult& found = report.found;
  observe::Table table(fmt::format("{} on {} × {}: the fastest of {} layouts, tried in {:.0f} ms",
                                   report.recipe, report.cluster.gpus, report.cluster.device.name,
                                   count_text(found.tried), 1e3 * found.seconds),
                       {{"layout"},
                        {"step", Align::kRight},
                        {"MFU", Align::kRight},
                        {"memory", Align::kRight},
                        {"where the time goes"}});
  for (const PlanCandidate& plan : found.best) {
    table.row({plan.layout.text(), seconds_text(plan.seconds), observe::percent(plan.mfu),
               size_text(plan.memory.total()), fmt::format("{}", fmt::join(reasons_of(plan), ", "))});
  }
  std::string text = table.text(colours) + "\n" + rejected_text(found, colours);
  if (found.best.empty()) return text + "\nNo layout of this model can be on this cluster.\n";
  return text + "\n" + goodput_text(report, found.best.front()) +
         fmt::format("Efficiencies: {}.\n", report.cluster.efficiency.source);
}

ordered_json plan_json(const PlanReport& report) {
  ordered_json json = head_of(report);
  json["layouts_tried"] = report.found.tried;
  json["search_seconds"] = report.found.seconds;
  json["best"] = ordered_json::array();
  for (const PlanCandidate& plan : report.found.best) json["best"].push_back(json_of(plan));
  json["rejected"] = ordered_json::array();
  for (const Rejected& row : report.found.rejected) {
    json["rejected"].push_back({{"reason", row.reason}, {"layouts", row.layouts}, {"example", row.example}});
  }
  if (!report.found.best.empty()) json["goodput"] = goodput_json(report, report.found.best.front());
  return json;
}

std::string explain_text(const PlanReport& report, const PlanCandidate& plan, bool colours) {
  observe::Table time(fmt::format("a step of {}, {}", plan.layout.text(), seconds_text(plan.seconds)),
                      {{"part"}, {"time", Align::kRight}, {"share", Align::kRight}});
  for (const auto& [name, seconds] : plan.parts.rows()) {
    if (seconds > 0) time.row({name, seconds_text(seconds), observe::percent(seconds / plan.seconds)});
  }
  time.total({"together", seconds_text(plan.seconds), fmt::format("MFU {}", observe::percent(plan.mfu))});
  observe::Table memory("memory of the fullest rank", {{"purpose"}, {"bytes", Align::kRight}});
  for (const auto& [name, bytes] : plan.memory.rows()) memory.row({name, size_text(bytes)});
  memory.total(
      {fmt::format("of {}", size_text(report.cluster.device.memory_bytes)), size_text(plan.memory.total())});
  observe::Table changes("what a change would gain",
                         {{"change"}, {"tokens/s", Align::kRight}, {"memory", Align::kRight}, {""}});
  for (const Change& change :
       told_changes(next_changes(report.work, plan, report.cluster, report.batch), plan.tokens_per_second)) {
    const PlanCandidate& c = change.candidate;
    changes.row({change.what, error_text(c.tokens_per_second / plan.tokens_per_second),
                 size_text(c.memory.total()), change.fits ? "" : "does not fit"});
  }
  std::string text = time.text(colours) + "\n" + memory.text(colours) + "\n" + changes.text(colours);
  if (const auto engine =
          simulated_seconds(plan.layout, plan.layout.micro_batches(report.batch), plan.parts)) {
    text += fmt::format(
        "\nThe schedule's own list of actions, played with these times, takes {} ({} of the formula).\n",
        seconds_text(*engine), error_text(*engine / plan.seconds));
  }
  return text + "\n" + goodput_text(report, plan);
}

ordered_json explain_json(const PlanReport& report, const PlanCandidate& plan) {
  ordered_json json = head_of(report);
  json["plan"] = json_of(plan);
  const auto engine = simulated_seconds(plan.layout, plan.layout.micro_batches(report.batch), plan.parts);
  json["plan"]["simulated_seconds"] = engine ? ordered_json(*engine) : ordered_json();
  json["goodput"] = goodput_json(report, plan);
  json["changes"] = ordered_json::array();
  for (const Change& change : next_changes(report.work, plan, report.cluster, report.batch)) {
    json["changes"].push_back(
        {{"what", change.what},
         {"tokens_per_second", change.candidate.tokens_per_second},
         {"gain", change.candidate.tokens_per_second / plan.tokens_per_second - 1},
         {"memory_bytes", whole_bytes(change.candidate.memory.total())},
         {"fits", change.fits},
         {"layout", change.of == Change::Of::kLayout ? json_of(change.candidate.layout) : ordered_json()}});
  }
  return json;
}

}  // namespace longhaul::plan
