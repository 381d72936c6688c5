#include "plan/search/plan_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/progress.h"
#include "observe/format.h"
#include "observe/table.h"

namespace longhaul::plan {
namespace {

using observe::Align;

PlannedSize size_of(const PlanReport& report) {
  const PlanCandidate& plan = report.found.best.front();
  PlannedSize size{.gpus = report.cluster.gpus,
                   .plan = plan,
                   .goodput = goodput_of(report.cluster, report.tokens, plan.tokens_per_second)};
  const Footprint footprint =
      footprint_of_plan(report.work, plan, report.cluster, report.tokens, size.goodput);
  size.energy_kwh = footprint.energy_facility_kwh.value;
  size.carbon_kg = footprint.carbon_kg.value;
  return size;
}

void mark_beaten(std::vector<PlannedSize>& sizes, PlanGoal cost) {
  for (PlannedSize& size : sizes) {
    const auto beats = [&](const PlannedSize& other) {
      const double days = other.goodput.days - size.goodput.days;
      const double more = other.value(cost) - size.value(cost);
      return days <= 0 && more <= 0 && (days < 0 || more < 0);
    };
    if (const auto better = std::ranges::find_if(sizes, beats); better != sizes.end())
      size.beaten_by = better->gpus;
  }
}

std::string three_digits(double value) {
  return value < 1000 ? fmt::format("{:.3g}", value) : observe::grouped(value);
}

}  // namespace

std::vector<std::string> names_of(PlanGoal) { return {"days", "price", "energy", "carbon"}; }

double PlannedSize::value(PlanGoal goal) const {
  switch (goal) {
    case PlanGoal::kDays:
      return goodput.days;
    case PlanGoal::kPrice:
      return goodput.price;
    case PlanGoal::kEnergy:
      return energy_kwh;
    case PlanGoal::kCarbon:
      return carbon_kg;
  }
  LONGHAUL_ASSERT(false, "a goal of number {}", static_cast<int>(goal));
}

PlanSizes plan_sizes(const std::vector<PlanReport>& reports, PlanGoal goal) {
  LONGHAUL_ASSERT(!reports.empty(), "no number of devices");
  const PlanReport& first = reports.front();
  const bool priced = first.cluster.price_per_gpu_hour > 0;
  if (goal == PlanGoal::kPrice && !priced) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the price of a device is not known",
                 .expected = "price_per_gpu_hour in the cluster's file",
                 .where = first.cluster.name,
                 .hint = "docs/guides/plan.md shows such a file; --by energy needs no price"});
  }
  PlanSizes sizes{.recipe = first.recipe,
                  .device = first.cluster.device.name,
                  .tokens = first.tokens,
                  .priced = priced,
                  .sizes = {},
                  .impossible = {}};
  for (const PlanReport& report : reports) {
    if (report.found.best.empty()) {
      sizes.impossible.push_back(report.cluster.gpus);
    } else {
      sizes.sizes.push_back(size_of(report));
    }
  }
  mark_beaten(sizes.sizes, priced ? PlanGoal::kPrice : PlanGoal::kEnergy);
  std::ranges::stable_sort(sizes.sizes, {}, [&](const PlannedSize& size) { return size.value(goal); });
  return sizes;
}

std::string sizes_text(const PlanSizes& sizes, PlanGoal goal, bool colours) {
  const std::string name = names_of(goal)[static_cast<size_t>(goal)];
  observe::Table table(fmt::format("{}: {} tokens on {}, the least {} first", sizes.recipe,
                                   observe::compact(sizes.tokens), sizes.device, name),
                       {{"devices", Align::kRight},
                        {"fastest layout"},
                        {"MFU", Align::kRight},
                        {"useful time", Align::kRight},
                        {"time", Align::kRight},
                        {"price", Align::kRight},
                        {"kWh", Align::kRight},
                        {"kg CO2e", Align::kRight},
                        {"beaten by"}});
  for (const PlannedSize& size : sizes.sizes) {
    table.row({count_text(size.gpus), size.plan.layout.text(), observe::percent(size.plan.mfu),
               observe::percent(size.goodput.effective), days_text(86400 * size.goodput.days),
               sizes.priced ? observe::grouped(size.goodput.price) : "", three_digits(size.energy_kwh),
               three_digits(size.carbon_kg),
               size.beaten_by > 0 ? fmt::format("{} devices", count_text(size.beaten_by)) : ""});
  }
  std::string text = table.text(colours);
  if (!sizes.impossible.empty())
    text += fmt::format("\nNo layout can be on {} devices (plan --gpus N says why).\n",
                        fmt::join(sizes.impossible, ", "));
  return text + fmt::format("\nA size is beaten where another takes no longer and needs no more {}.\n",
                            sizes.priced ? "money" : "energy");
}

nlohmann::ordered_json sizes_json(const PlanSizes& sizes, PlanGoal goal) {
  nlohmann::ordered_json json = {{"recipe", sizes.recipe},
                                 {"device", sizes.device},
                                 {"tokens", sizes.tokens},
                                 {"by", names_of(goal)[static_cast<size_t>(goal)]},
                                 {"sizes", nlohmann::ordered_json::array()},
                                 {"impossible", sizes.impossible}};
  for (const PlannedSize& size : sizes.sizes) {
    json["sizes"].push_back({{"gpus", size.gpus},
                             {"layout", size.plan.layout.text()},
                             {"step_seconds", size.plan.seconds},
                             {"mfu", size.plan.mfu},
                             {"tokens_per_second", size.plan.tokens_per_second},
                             {"effective_share", size.goodput.effective},
                             {"days", size.goodput.days},
                             {"price", size.goodput.price},
                             {"energy_facility_kwh", size.energy_kwh},
                             {"carbon_kg", size.carbon_kg},
                             {"beaten_by", size.beaten_by}});
  }
  return json;
}

}  // namespace longhaul::plan
