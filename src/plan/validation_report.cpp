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

constexpr const char* kUnknownCluster = "dense A100, nothing known of the cluster";

std::string row_error_text(double ratio) { return fmt::format("{:+.1f} %", 100 * (ratio - 1)); }

// If the source does not give the stages per rank: over all possible ones.
std::string range_text(const PublishedRow& row) {
  if (row.stages.size() < 2) return "";
  const auto [least, most] = predicted_range(row);
  return fmt::format("{:+.1f} … {}", 100 * (least / row.seconds - 1), row_error_text(most / row.seconds));
}

}  // namespace

std::string use_text(const PublishedRow& row) {
  switch (row.use) {
    case RowUse::kConstants:
      return "constants fitted on";
    case RowUse::kReach:
      return "reach fitted on";
    case RowUse::kOverlap:
      return "overlap fitted on";
    case RowUse::kHeldOut:
      break;
  }
  return !row.apart.empty() ? "held out, apart" : !row.in_sight.empty() ? "held out, in sight" : "held out";
}

bool validation_holds(const std::vector<SearchCheck>& searches) {
  return std::ranges::all_of(
             published_pairs(),
             [](const PublishedPair& pair) { return in_published_order(pair) || !clearly_apart(pair); }) &&
         std::ranges::none_of(searches, [](const SearchCheck& check) { return check.faster.has_value(); });
}

std::vector<PublishedGroup> published_groups() {
  std::vector<PublishedGroup> groups = {{"held out, dense", {}},   {"held out, dense A100", {}},
                                        {"held out, experts", {}}, {"held out, ZeRO-3", {}},
                                        {"held out, apart", {}},   {"constants fitted on", {}},
                                        {"reach fitted on", {}},   {"overlap fitted on", {}},
                                        {"ZeRO-3, all", {}},       {kUnknownCluster, {}}};
  std::vector<PublishedGroup> families;
  for (PublishedRow row : published_rows()) {
    const bool judged = row.judged(), a100 = row.dense && row.cluster.device.name == "a100";
    if (judged && row.dense) groups[0].rows.push_back(row);
    if (judged && a100) groups[1].rows.push_back(row);
    if (judged && !row.dense) groups[2].rows.push_back(row);
    if (row.layout.zero >= 3 && row.held_out()) groups[3].rows.push_back(row);
    if (!row.apart.empty()) groups[4].rows.push_back(row);
    if (row.use == RowUse::kConstants) groups[5].rows.push_back(row);
    if (row.use == RowUse::kReach) groups[6].rows.push_back(row);
    if (row.use == RowUse::kOverlap) groups[7].rows.push_back(row);
    if (row.layout.zero >= 3) groups[8].rows.push_back(row);
    if (row.held_out()) {
      if (families.empty() || families.back().name != row.family) families.push_back({row.family, {}});
      families.back().rows.push_back(row);
    }
    row.reach = 1;
    if (a100 && (judged || row.use == RowUse::kReach)) groups[9].rows.push_back(row);
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

namespace {

constexpr const char* kPairs =
    "pairs of layouts of one model on one cluster are predicted in their published order";

int64_t pairs_in_order(const std::vector<PublishedPair>& pairs) {
  return std::ranges::count_if(pairs, in_published_order);
}

std::string pair_text(const PublishedPair& pair) {
  return fmt::format("{}: {} before {}: {}", pair.faster->family, pair.faster->name, pair.slower->family,
                     pair.slower->name);
}

std::string searches_text(const std::vector<SearchCheck>& searches, bool colours) {
  observe::Table table(
      "searches on H100s: is a neighbour of the best layout faster?",
      {{"model"}, {"GPUs", Align::kRight}, {"layouts", Align::kRight}, {"best"}, {"faster"}});
  for (const SearchCheck& check : searches) {
    table.row({check.model, std::to_string(check.gpus), observe::grouped(static_cast<double>(check.layouts)),
               check.best ? check.best->layout.text() : "none fits",
               check.faster ? check.faster->what : "no"});
  }
  return table.text(colours);
}

ordered_json json_of(const SearchCheck& check) {
  return {{"model", check.model},
          {"gpus", check.gpus},
          {"layouts", check.layouts},
          {"best", check.best ? ordered_json(check.best->layout.text()) : ordered_json()},
          {"faster", check.faster ? ordered_json(check.faster->what) : ordered_json()}};
}

}  // namespace

std::string validation_text(const std::vector<SearchCheck>& searches, bool colours) {
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
               row_error_text(seconds / row.seconds), range_text(row), observe::percent(row.mfu(row.seconds)),
               observe::percent(row.mfu(seconds)), use_text(row)});
  }
  observe::Table sums(
      "errors", {{"rows"}, {"count", Align::kRight}, {"mean", Align::kRight}, {"worst", Align::kRight}});
  for (const PublishedGroup& group : published_groups()) {
    const Errors errors = errors_of(group.rows);
    sums.row({group.name, std::to_string(errors.rows), observe::percent(errors.mean),
              observe::percent(errors.worst)});
  }
  const std::vector<PublishedPair> pairs = published_pairs();
  std::string text = table.text(colours) + "\n" + sums.text(colours) + "\n" +
                     searches_text(searches, colours) +
                     fmt::format("\n{} of {} {}.\n", pairs_in_order(pairs), pairs.size(), kPairs);
  for (const PublishedPair& pair : pairs) {
    if (!in_published_order(pair)) text += fmt::format("  not so: {}\n", pair_text(pair));
  }
  return text;
}

ordered_json validation_json(const std::vector<SearchCheck>& searches) {
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
                            {"use", use_text(row)},
                            {"in_sight", row.in_sight},
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
    json["errors"].push_back(
        {{"rows", group.name}, {"count", errors.rows}, {"mean", errors.mean}, {"worst", errors.worst}});
  }
  const std::vector<PublishedPair> pairs = published_pairs();
  json["pairs"] = {
      {"count", pairs.size()}, {"in_order", pairs_in_order(pairs)}, {"not_in_order", ordered_json::array()}};
  for (const PublishedPair& pair : pairs) {
    if (!in_published_order(pair)) json["pairs"]["not_in_order"].push_back(pair_text(pair));
  }
  json["searches"] = ordered_json::array();
  for (const SearchCheck& check : searches) json["searches"].push_back(json_of(check));
  return json;
}

}  // namespace longhaul::plan
