#include "detect/trials/case_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/json.h"
#include "detect/samples/metric_files.h"

namespace longhaul::detect {
namespace {

using nlohmann::ordered_json;

constexpr JsonRules kTruthRules{
    .code = ExitCode::kData, .what = "malformed truth of a case", .hint = "write it again: detect simulate"};

ordered_json fault_json(const Fault& fault, const Case& from) {
  ordered_json names = ordered_json::array(), group = ordered_json::array();
  for (const size_t metric : fault.metrics) {
    if (std::find(from.spec.metrics.begin(), from.spec.metrics.end(), metric) != from.spec.metrics.end())
      names.push_back(metrics()[metric].name);
  }
  for (const int32_t machine : fault.group) group.push_back(from.pull.machines[static_cast<size_t>(machine)]);
  return {{"type", fault.type},   {"machine", from.pull.machines[static_cast<size_t>(fault.machine)]},
          {"group", group},       {"onset_s", fault.onset_s},
          {"end_s", fault.end_s}, {"severity", fault.severity},
          {"metrics", names},     {"detectable", detectable(fault, metric_choice("used"), kContinuitySpan)}};
}

}  // namespace

void write_case(const std::filesystem::path& folder, const Case& from) {
  make_folders(folder);
  const Pull& pull = from.pull;
  for (size_t m = 0; m < pull.metrics.size(); ++m) {
    const Metric& metric = metrics()[pull.metrics[m]];
    Series series{.metric = pull.metrics[m], .machines = pull.machines};
    series.values.reserve(static_cast<size_t>(pull.seconds * pull.count()));
    for (int64_t s = 0; s < pull.seconds; ++s) {
      series.times_s.push_back(pull.first_s + static_cast<double>(s));
      for (int64_t i = 0; i < pull.count(); ++i)
        series.values.push_back(static_cast<float>(metric.low + static_cast<double>(pull.row(m, s)[i]) *
                                                                    (metric.high - metric.low)));
    }
    write_metric_file(folder / (std::string(metric.name) + ".csv"), series);
  }
  if (pull.classes.size() > 1) {
    std::string text = "machine,class\n";
    for (size_t i = 0; i < pull.machines.size(); ++i)
      text += pull.machines[i] + "," + pull.classes[static_cast<size_t>(pull.class_of[i])] + "\n";
    write_text_atomically(folder / "machines.csv", text);
  }
  ordered_json faults = ordered_json::array();
  for (const Fault& fault : from.faults) faults.push_back(fault_json(fault, from));
  const ordered_json truth = {{"seed", from.spec.seed},
                              {"machines", pull.machines},
                              {"seconds", pull.seconds},
                              {"regime", from.spec.glitches ? "B" : "A"},
                              {"faults", faults}};
  write_text_atomically(folder / "truth.json", truth.dump(1) + "\n");
}

std::optional<Truth> read_truth(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "truth.json";
  if (!std::filesystem::exists(file)) return std::nullopt;
  const nlohmann::json json = parse_json(read_text(file), file.string(), kTruthRules);
  const JsonView root(json, file.string() + ":", kTruthRules);
  Truth truth;
  const JsonView machines = root.at("machines");
  for (size_t i = 0; i < machines.array_size(); ++i) truth.machines.push_back(machines.at(i).string());
  const auto index_of = [&](const JsonView& name) {
    const auto found = std::find(truth.machines.begin(), truth.machines.end(), name.string());
    name.require(found != truth.machines.end(), "one of the machines");
    return static_cast<int32_t>(found - truth.machines.begin());
  };
  const JsonView faults = root.at("faults");
  for (size_t i = 0; i < faults.array_size(); ++i) {
    const JsonView each = faults.at(i);
    Fault fault{.type = each.at("type").string(),
                .machine = index_of(each.at("machine")),
                .onset_s = each.at("onset_s").integer(0),
                .end_s = each.at("end_s").integer(0),
                .severity = each.at("severity").number()};
    for (size_t g = 0; g < each.at("group").array_size(); ++g)
      fault.group.push_back(index_of(each.at("group").at(g)));
    for (size_t m = 0; m < each.at("metrics").array_size(); ++m)
      fault.metrics.push_back(
          metric_named(each.at("metrics").at(m).string(), each.at("metrics").at(m).where()));
    truth.faults.push_back(std::move(fault));
  }
  return truth;
}

}  // namespace longhaul::detect
