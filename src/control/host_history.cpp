#include "control/host_history.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/clock.h"
#include "base/files/file.h"

namespace longhaul::control {
namespace {

constexpr std::array<std::string_view, 7> kEventNames = {
    "excluded",          "device error",     "ticket",          "out of service",
    "many-node failure", "one-node failure", "one-node success"};
// The count of each event within kHostMemory_s from which it speaks against a host. A ticket is a person's
// judgement. A failure in a run on one node cannot be caused by another host; a failure in a run of many
// nodes can.
constexpr std::array<int64_t, 6> kEventThresholds = {3, 3, 1, 2, 2, 1};
constexpr double kRateThreshold = 0.2;
constexpr int64_t kRunsForARate = 5;

}  // namespace

std::string_view name_of(HostEvent event) { return kEventNames[static_cast<size_t>(event)]; }

void append_record(const std::filesystem::path& file, const HostRecord& record) {
  if (file.has_parent_path()) make_folders(file.parent_path());
  const nlohmann::ordered_json json = {
      {"time", record.time_s}, {"host", record.host}, {"event", name_of(record.event)}, {"run", record.run}};
  File out = File::open(file, File::Mode::kAppend);
  out.write(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  out.sync();
}

std::vector<HostRecord> read_records(const std::filesystem::path& file) {
  std::vector<HostRecord> records;
  if (!std::filesystem::exists(file)) return records;
  std::istringstream lines(read_text(file, ExitCode::kDisk));
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("time") || !json["time"].is_number() || !json.contains("host") ||
        !json["host"].is_string())
      continue;
    if (!json.contains("event") || !json["event"].is_string()) continue;
    const auto name = std::find(kEventNames.begin(), kEventNames.end(), json["event"].get<std::string>());
    if (name == kEventNames.end()) continue;
    records.push_back(
        {.time_s = json["time"].get<double>(),
         .host = json["host"].get<std::string>(),
         .event = static_cast<HostEvent>(name - kEventNames.begin()),
         .run = json.contains("run") && json["run"].is_string() ? json["run"].get<std::string>() : ""});
  }
  return records;
}

LemonScore lemon_score(const std::vector<HostRecord>& records, const std::string& host, double now_s) {
  LemonScore score;
  int64_t successes = 0;
  for (const HostRecord& record : records) {
    if (record.host != host || record.time_s > now_s || record.time_s <= now_s - kHostMemory_s) continue;
    if (record.event == HostEvent::kOneNodeSuccess)
      ++successes;
    else
      ++score.counts[static_cast<size_t>(record.event)];
  }
  for (size_t i = 0; i < score.counts.size(); ++i) score.signals += score.counts[i] >= kEventThresholds[i];
  const int64_t failures = score.counts[static_cast<size_t>(HostEvent::kOneNodeFailure)];
  if (failures + successes > 0)
    score.one_node_failure_rate = static_cast<double>(failures) / static_cast<double>(failures + successes);
  score.signals += failures + successes >= kRunsForARate && score.one_node_failure_rate >= kRateThreshold;
  return score;
}

std::vector<std::string> order_of_use(std::vector<std::string> hosts, const std::vector<HostRecord>& records,
                                      double now_s) {
  std::map<std::string, int64_t> against;
  for (const std::string& host : hosts) {
    const LemonScore score = lemon_score(records, host, now_s);
    against[host] = score.lemon() ? score.signals : 0;
  }
  std::stable_sort(hosts.begin(), hosts.end(),
                   [&](const auto& a, const auto& b) { return against[a] < against[b]; });
  return hosts;
}

}  // namespace longhaul::control
