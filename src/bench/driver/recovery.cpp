#include "bench/driver/recovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/clock.h"
#include "base/progress.h"

namespace longhaul::bench {
namespace {

using observe::Align;
using observe::Table;

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

std::string why(const control::SimulationResult& result) {
  const std::string text = result.text.substr(0, result.text.find(':'));
  return fmt::format("exit code {} ({})", static_cast<int>(result.code), text.substr(0, 40));
}

void add(Recovery& all, uint64_t seed, const control::SimulationResult& result,
         std::map<std::string, std::vector<double>>& recovered_s) {
  ++all.schedules;
  all.finished += result.finished ? 1 : 0;
  all.injected += result.injected;
  all.incidents += result.incidents;
  all.restarts += result.restarts;
  all.generations += result.generations;
  all.drivers += result.drivers;
  all.single += result.single;
  all.named += result.named;
  all.virtual_s += result.seconds;
  if (!result.broken.empty()) all.broken.emplace_back(seed, result.broken.front());
  if (!result.finished) ++all.ends[why(result)];
  for (const auto& [kind, count] : result.injected_by_kind) all.injected_by_kind[kind] += count;
  for (const auto& [fault, count] : result.incidents_by_class) all.classes[fault].incidents += count;
  for (const auto& [fault, seconds] : result.recovered_s)
    recovered_s[fault].insert(recovered_s[fault].end(), seconds.begin(), seconds.end());
}

}  // namespace

Recovery measure_recovery(const RecoveryRequest& request) {
  Recovery all;
  const Stopwatch watch;
  std::map<std::string, std::vector<double>> recovered_s;
  Progress progress("schedules", request.schedules);
  for (int64_t i = 0; i < request.schedules; ++i) {
    const uint64_t seed = request.seed + static_cast<uint64_t>(i);
    add(all, seed, control::simulate(control::quick_schedule(seed)), recovered_s);
    progress.advance(1);
  }
  all.seconds = watch.seconds();
  for (auto& [fault, of_class] : all.classes) {
    const std::vector<double>& seconds = recovered_s[fault];
    if (seconds.empty()) continue;
    of_class.recovered_mean_s =
        std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
    of_class.recovered_p99_s = percentile(seconds, 0.99);
  }
  for (plan::RateScenario& scenario : plan::rate_scenarios(request.measured)) {
    Recovery::Rate rate{.scenario = scenario, .rate = plan::simulate_rate(scenario.run)};
    double down_s = 0, shares = 0;
    for (const plan::FaultKind& kind : scenario.run.kinds) {
      down_s += kind.share * (kind.detect_s + kind.diagnose_s + kind.restart_s);
      shares += kind.share;
    }
    rate.formula = plan::expected_effective_rate(scenario.run.mean_to_failure_s, scenario.run.interval_s,
                                                 scenario.run.checkpoint_s, down_s / shares);
    all.rates.push_back(std::move(rate));
  }
  return all;
}

std::string text_of(const Recovery& measured, bool colours) {
  Table faults(
      "incidents by class, in virtual time with patience of seconds",
      {{"class"}, {"incidents", Align::kRight}, {"mended, mean", Align::kRight}, {"p99", Align::kRight}});
  for (const auto& [fault, of_class] : measured.classes) {
    faults.row({fault, std::to_string(of_class.incidents), fmt::format("{:.1f} s", of_class.recovered_mean_s),
                fmt::format("{:.1f} s", of_class.recovered_p99_s)});
  }
  std::string text = faults.text(colours);
  text += fmt::format(
      "\n{} schedules ({:.0f} h of virtual time in {:.0f} s): {} faults, {} restarts, {} generations, {} "
      "starts of the driver\n",
      measured.schedules, measured.virtual_s / 3600, measured.seconds, measured.injected, measured.restarts,
      measured.generations, measured.drivers);
  text += fmt::format("{} finished all steps", measured.finished);
  for (const auto& [reason, count] : measured.ends) text += fmt::format("; {} ended with {}", count, reason);
  text += fmt::format("\nfaults of one rank that came alone: {} of {} incidents name it\n", measured.named,
                      measured.single);
  if (measured.broken.empty()) {
    text += "all invariants held in every schedule\n\n";
  } else {
    text += fmt::format("INVARIANTS BROKEN in {} schedules:\n", measured.broken.size());
    for (size_t i = 0; i < std::min<size_t>(10, measured.broken.size()); ++i)
      text += fmt::format("  seed {}: {}\n", measured.broken[i].first, measured.broken[i].second);
  }
  Table rates("effective training rate under memoryless faults", {{"run"},
                                                                  {"faults", Align::kRight},
                                                                  {"rate", Align::kRight},
                                                                  {"formula", Align::kRight},
                                                                  {"published", Align::kRight},
                                                                  {"lost most to"}});
  for (const Recovery::Rate& rate : measured.rates) {
    const auto most =
        std::ranges::max_element(rate.rate.lost_s, {}, [](const auto& lost) { return lost.second; });
    rates.row({rate.scenario.name, std::to_string(rate.rate.faults),
               fmt::format("{:.2f} %", 100 * rate.rate.rate), fmt::format("{:.2f} %", 100 * rate.formula),
               rate.scenario.published > 0 ? fmt::format("{:.0f} %", 100 * rate.scenario.published) : "",
               most == rate.rate.lost_s.end() ? "" : most->first});
  }
  return text + rates.text(colours);
}

nlohmann::ordered_json to_json(const Recovery& measured) {
  nlohmann::ordered_json json = {{"name", "recovery"},
                                 {"schedules", measured.schedules},
                                 {"finished", measured.finished},
                                 {"injected", measured.injected},
                                 {"restarts", measured.restarts},
                                 {"generations", measured.generations},
                                 {"driver_starts", measured.drivers},
                                 {"virtual_hours", measured.virtual_s / 3600},
                                 {"single_faults", measured.single},
                                 {"single_faults_named", measured.named},
                                 {"ends", measured.ends},
                                 {"injected_by_kind", measured.injected_by_kind}};
  json["broken"] = nlohmann::ordered_json::array();
  for (const auto& [seed, what] : measured.broken) json["broken"].push_back({{"seed", seed}, {"what", what}});
  for (const auto& [fault, of_class] : measured.classes) {
    json["classes"][fault] = {{"incidents", of_class.incidents},
                              {"recovered_mean_seconds", of_class.recovered_mean_s},
                              {"recovered_p99_seconds", of_class.recovered_p99_s}};
  }
  json["rates"] = nlohmann::ordered_json::array();
  for (const Recovery::Rate& rate : measured.rates) {
    nlohmann::ordered_json row = {{"run", rate.scenario.name},
                                  {"source", rate.scenario.source},
                                  {"faults", rate.rate.faults},
                                  {"rate", rate.rate.rate},
                                  {"formula", rate.formula}};
    if (rate.scenario.published > 0) row["published"] = rate.scenario.published;
    for (const auto& [what, seconds] : rate.rate.lost_s) row["lost_hours"][what] = seconds / 3600;
    json["rates"].push_back(std::move(row));
  }
  return json;
}

}  // namespace longhaul::bench
