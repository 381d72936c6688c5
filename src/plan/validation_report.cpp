#include "plan/validation_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "observe/format.h"
#include "observe/table.h"

namespace longhaul::plan {
namespace {

using nlohmann::ordered_json;
using observe::Align;

std::string error_text(double ratio) { return fmt::format("{:+.1f} %", 100 * (ratio - 1)); }

// Where the source does not say how many stages a rank has: over all that are possible.
std::string range_text(const PublishedRow& row) {
  if (row.stages.size() < 2) return "";
  const auto [least, most] = predicted_range(row);
  return fmt::format("{:+.1f} … {}", 100 * (least / row.seconds - 1), error_text(most / row.seconds));
}

}  // namespace

const char* use_text(RowUse use) {
  return use == RowUse::kHeldOut ? "held out" : use == RowUse::kConstants ? "constants fitted on" : "reach fitted on";
}

std::vector<PublishedGroup> published_groups() {
  std::vector<PublishedGroup> groups = {
      {"held out, dense", {}}, {"held out, dense A100", {}}, {"held out, experts", {}}, {"held out, ZeRO-3", {}},
      {"held out, apart", {}}, {"constants fitted on", {}},  {"reach fitted on", {}},   {"dense A100, nothing known of the cluster", {}}};
  std::vector<PublishedGroup> families;
  for (PublishedRow row : published_rows()) {
    const bool judged = row.judged(), a100 = row.dense && row.cluster.device.name == "a100";
    if (judged && row.dense) groups[0].rows.push_back(row);
    if (judged && a100) groups[1].rows.push_back(row);
    if (judged && !row.dense) groups[2].rows.push_back(row);
    if (row.layout.zero >= 3) groups[3].rows.push_back(row);
    if (!row.apart.empty()) groups[4].rows.push_back(row);
    if (row.use == RowUse::kConstants) groups[5].rows.push_back(row);
    if (row.use == RowUse::kReach) groups[6].rows.push_back(row);
    if (row.held_out()) {
      if (families.empty() || families.back().name != row.family) families.push_back({row.family, {}});
      families.back().rows.push_back(row);
    }
    row.reach = 1;
    if (a100 && (judged || row.use == RowUse::kReach)) groups[7].rows.push_back(row);
  }
  std::ranges::stable_sort(families, {}, &PublishedGroup::name);
  for (PublishedGroup& family : families) {
    if (groups.back().name == family.name) {
      std::ranges::move(family.rows, std::back_inserter(groups.back().rows));
    } else {
      groups.push_back(std::move(family));
    }
  }
  return groups;
}

std::string validation_text(bool colours) {
  observe::Table table("published steps, predicted", {{"family"},
                                                      {"row"},
                                                      {"published", Align::kRight},
                                                      {"predicted", Align::kRight},
                                                      {"error", Align::kRight},
                                                      {"over stages", Align::kRight},
                                                      {"MFU", Align::kRight},
                                                      {"predicted", Align::kRight},
                                                      {""}});
  for (const PublishedRow& row : published_rows()) {
    const double seconds = predicted(row);
    table.row({row.family, row.name, fmt::format("{:.3f} s", row.seconds), fmt::format("{:.3f} s", seconds),
               error_text(seconds / row.seconds), range_text(row), observe::percent(row.mfu(row.seconds)),
               observe::percent(row.mfu(seconds)), row.apart.empty() ? use_text(row.use) : "held out, apart"});
  }
  observe::Table sums("errors", {{"rows"}, {"count", Align::kRight}, {"mean", Align::kRight}, {"worst", Align::kRight}});
  for (const PublishedGroup& group : published_groups()) {
    const Errors errors = errors_of(group.rows);
    sums.row({group.name, std::to_string(errors.rows), observe::percent(errors.mean), observe::percent(errors.worst)});
  }
  return table.text(colours) + "\n" + sums.text(colours);
}

ordered_json validation_json() {
  ordered_json json = {{"rows", ordered_json::array()}, {"errors", ordered_json::array()}};
  for (const PublishedRow& row : published_rows()) {
    const double seconds = predicted(row);
    const auto range = predicted_range(row);
    json["rows"].push_back({{"name", row.family + ": " + row.name},
                            {"published", row.seconds},
                            {"predicted", seconds},
                            {"error", seconds / row.seconds - 1},
                            {"predicted_least", range.first},
                            {"predicted_most", range.second},
                            {"held_out", row.held_out()},
                            {"use", use_text(row.use)},
                            {"reach", row.reach},
                            {"dense", row.dense},
                            {"unit", "seconds"},
                            {"published_mfu", row.mfu(row.seconds)},
                            {"predicted_mfu", row.mfu(seconds)},
                            {"layout", row.layout.text()},
                            {"assumed", row.assumed},
                            {"apart", row.apart},
                            {"source", row.source}});
  }
  for (const PublishedGroup& group : published_groups()) {
    const Errors errors = errors_of(group.rows);
    json["errors"].push_back({{"rows", group.name}, {"count", errors.rows}, {"mean", errors.mean}, {"worst", errors.worst}});
  }
  return json;
}

}  // namespace longhaul::plan
