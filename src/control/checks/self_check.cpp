#include "control/checks/self_check.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/machine/machine.h"
#include "base/process/process.h"
#include "base/text/json.h"
#include "base/text/number.h"
#include "base/text/text.h"

namespace longhaul::control {
namespace {

constexpr std::array<std::string_view, 4> kStatusNames = {"passed", "slow", "failed", "skipped"};

constexpr JsonRules kReportRules{
    .code = ExitCode::kCommunication, .what = "malformed report of a self-check", .hint = ""};

std::string text_in(const JsonView& object, const std::string& key) {
  return object.has(key) ? object.at(key).string() : "";
}
double number_in(const JsonView& object, const std::string& key) {
  return object.has(key) ? object.at(key).number() : 0;
}

// A crash, a hang and an answer that cannot be read are findings about the machine.
CheckFinding without_answer(const Check& check, const ProcessResult& process, double time_limit_s) {
  CheckFinding result{.name = check.name};
  if (process.timed_out) {
    result.found = fmt::format("no end within {}", duration_text(time_limit_s));
    result.make(CheckStatus::kFailed, fmt::format("an end within {}", duration_text(time_limit_s)),
                "a device that does not answer: dmesg, and the same command by hand");
    return result;
  }
  const std::string how = process.status > 128 ? fmt::format("ended by signal {}", process.status - 128)
                                               : fmt::format("exit status {}", process.status);
  const std::string said = brief(printable(process.errors), 300);
  result.found = said.empty() ? how : how + ": " + said;
  result.make(CheckStatus::kFailed, "an answer", "run it by hand: longhaul diagnose --check " + check.name);
  return result;
}

}  // namespace

std::string node_name() {
  const char* given = std::getenv("LONGHAUL_NODE");
  return given && *given ? given : machine().host;
}

std::string_view name_of(CheckStatus status) { return kStatusNames[static_cast<size_t>(status)]; }

void CheckFinding::make(CheckStatus worse, std::string its_limit, std::string its_advice) {
  LONGHAUL_ASSERT(worse == CheckStatus::kSlow || worse == CheckStatus::kFailed);
  if (status == CheckStatus::kFailed || status == worse) return;
  status = worse;
  limit = std::move(its_limit);
  advice = std::move(its_advice);
}

std::string CheckFinding::signature() const {
  std::string all;
  for (const Fingerprint& print : fingerprints) all += print.name + "=" + print.value + "\n";
  return all.empty() ? "" : fmt::format("{:016x}", xxh3(all));
}

nlohmann::ordered_json CheckFinding::to_json() const {
  auto prints = nlohmann::ordered_json::array();
  for (const Fingerprint& print : fingerprints)
    prints.push_back({{"name", print.name}, {"value", print.value}, {"of_model", print.of_model}});
  nlohmann::ordered_json json = {{"name", name},
                                 {"status", name_of(status)},
                                 {"passed", status != CheckStatus::kFailed},
                                 {"found", found}};
  if (!limit.empty()) json["expected"] = limit;
  if (!advice.empty()) json["advice"] = advice;
  // The form in which the node daemon sends results to the driver (control/wire/messages.h): text for people,
  // and the bits that the driver compares.
  json["text"] = limit.empty() ? found : found + "; expected: " + limit;
  json["signature"] = signature();
  json["seconds"] = seconds;
  json["values"] = values;
  json["fingerprints"] = std::move(prints);
  return json;
}

CheckFinding CheckFinding::from_json(const nlohmann::json& json, const std::string& where) {
  const JsonView view(json, where, kReportRules);
  CheckFinding result{.name = view.at("name").string(),
                      .found = text_in(view, "found"),
                      .limit = text_in(view, "expected"),
                      .advice = text_in(view, "advice"),
                      .seconds = number_in(view, "seconds")};
  const auto status = std::find(kStatusNames.begin(), kStatusNames.end(), view.at("status").string());
  view.at("status").require(status != kStatusNames.end(), "passed, slow, failed or skipped");
  result.status = static_cast<CheckStatus>(status - kStatusNames.begin());
  const JsonView values = view.at("values");
  values.require(values.value().is_object(), "an object");
  for (const auto& [key, value] : values.value().items())
    result.values[key] = values.entry(key, value).number();
  const JsonView prints = view.at("fingerprints");
  for (size_t i = 0; i < prints.array_size(); ++i) {
    const JsonView print = prints.at(i);
    result.fingerprints.push_back(
        {print.at("name").string(), print.at("value").string(), print.boolean_or("of_model", false)});
  }
  return result;
}

bool SelfCheckReport::passed() const {
  return std::none_of(results.begin(), results.end(),
                      [](const CheckFinding& result) { return result.status == CheckStatus::kFailed; });
}

const CheckFinding* SelfCheckReport::worst() const {
  for (const CheckStatus status : {CheckStatus::kFailed, CheckStatus::kSlow}) {
    const auto found = std::find_if(results.begin(), results.end(),
                                    [&](const CheckFinding& result) { return result.status == status; });
    if (found != results.end()) return &*found;
  }
  return nullptr;
}

nlohmann::ordered_json SelfCheckReport::to_json() const {
  auto checks = nlohmann::ordered_json::array();
  for (const CheckFinding& result : results) checks.push_back(result.to_json());
  return {{"node", node},       {"boot", boot},       {"model", model},  {"wall_time", wall_time},
          {"seconds", seconds}, {"passed", passed()}, {"checks", checks}};
}

SelfCheckReport SelfCheckReport::from_json(const nlohmann::json& json, const std::string& where) {
  const JsonView view(json, where + ":", kReportRules);
  SelfCheckReport report{.node = view.at("node").string(),
                         .boot = text_in(view, "boot"),
                         .model = text_in(view, "model"),
                         .wall_time = number_in(view, "wall_time"),
                         .seconds = number_in(view, "seconds")};
  const JsonView checks = view.at("checks");
  for (size_t i = 0; i < checks.array_size(); ++i) {
    report.results.push_back(CheckFinding::from_json(checks.at(i).value(), checks.at(i).where()));
  }
  return report;
}

// Lower limits that a machine only misses if something is wrong with it; a machine that is merely slow is
// found by comparison with other nodes (node_comparison.h).
const std::vector<Limit>& default_limits() {
  static const std::vector<Limit> limits = {
      {"memory_bytes", 1 << 30,
       "memory that is written and read again; a quarter of what is available at most"},
      {"disk_bytes", 64 << 20, "what is written to the disk, read and compared"},
      {"disk_free_bytes", 1e9, "less has failed"},
      {"disk_write_bytes_per_second", 20e6, "less is slow"},
      {"disk_fsync_milliseconds", 1000, "more is slow"},
      {"loopback_bytes_per_second", 100e6, "less is slow"},
      {"loopback_milliseconds", 20, "of a message there and back; more is slow"},
      {"network_errors_share", 1e-4, "of the packets of an interface; more is slow"},
      {"gpus", 0, "fewer have failed"},
      {"gpu_temperature_celsius", 90, "more is slow"},
      {"clock_offset_seconds", 1, "between two nodes; more has failed"},
      {"share_of_median", 0.9, "of what nodes of one model reach; less is slow"},
      {"failed_share_of_median", 0.5, "and less than that has failed"},
  };
  return limits;
}

double Limits::operator[](std::string_view name) const {
  if (const auto found = changed_.find(name); found != changed_.end()) return found->second;
  const auto& all = default_limits();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Limit& limit) { return limit.name == name; });
  LONGHAUL_ASSERT(found != all.end(), "no limit {}", name);
  return found->value;
}

void Limits::set(const std::string& name_and_value) {
  const size_t equals = name_and_value.find('=');
  const std::string name = name_and_value.substr(0, equals);
  std::vector<std::string> names;
  for (const Limit& limit : default_limits()) names.emplace_back(limit.name);
  const bool known = std::find(names.begin(), names.end(), name) != names.end();
  double value = std::nan("");
  if (equals != std::string::npos) {
    const std::string_view after = std::string_view(name_and_value).substr(equals + 1);
    value = parse_number<double>(after).value_or(value);
  }
  if (known && value >= 0 && std::isfinite(value)) {
    changed_[name] = value;
    return;
  }
  const std::string near = nearest_spelling(name, names);
  throw Error({.code = ExitCode::kUsage,
               .what = "not a limit of the self-check",
               .expected = "NAME=VALUE with one of: " + fmt::format("{}", fmt::join(names, ", ")),
               .found = name_and_value,
               .where = "--limit",
               .hint = known || near.empty() ? "" : "--limit " + near + "=VALUE"});
}

const std::vector<Check>& all_checks() {
  static const std::vector<Check> checks = {
      {"versions", "program, LibTorch, C library: the same on all nodes", 10},
      {"network", "interfaces, and the loopback: rate, round trip, bytes that arrive as sent", 20},
      {"disk", "room, and writing, reading and fsync of a file that is compared", 30},
      {"gpu", "GPUs that answer, their links, clocks and memory errors", 20},
      {"product", "matrix products against whole numbers, and their rate", 30},
      {"memory", "patterns written, read and compared; rate", 40},
      {"alignment", "one step of a small model on 8 ranks (tp, pp and dp of 2), to the bit", 60},
  };
  return checks;
}

CheckRunner checks_in_children(const std::filesystem::path& program, const SelfCheckOptions& options) {
  std::vector<std::string> more = {"--folder", options.folder.string()};
  if (options.deep) more.push_back("--deep");
  for (const std::string& limit : options.limits) more.insert(more.end(), {"--limit", limit});
  if (!options.plant.empty()) more.insert(more.end(), {"--plant", options.plant});
  return [program, more](const Check& check, double time_limit_s) {
    std::vector<std::string> words = {program.string(), "diagnose", "--one", check.name};
    words.insert(words.end(), more.begin(), more.end());
    // A check runs alone, whatever engine started this rank.
    const ProcessResult process =
        run_process(words, {"RANK=", "WORLD_SIZE=", "SLURM_STEP_ID=", "PET_NODE_RANK="}, time_limit_s);
    if (process.timed_out || process.status != 0) return without_answer(check, process, time_limit_s);
    const std::string where = "what the check " + check.name + " printed";
    return CheckFinding::from_json(parse_json(process.output, where, kReportRules), where + ":");
  };
}

SelfCheckReport run_self_check(const SelfCheckOptions& options, const CheckRunner& runner) {
  const Machine& here = machine();
  SelfCheckReport report{
      .node = node_name(),
      .boot = here.boot,
      .model = fmt::format("{}, {} cores, {}", here.processor, here.cores, fmt::join(here.features, " ")),
      .wall_time = wall_time_s()};
  const Stopwatch all;
  const double budget_s = options.deep ? kStopTime_s : kPreFlight_s;
  for (const Check& check : all_checks()) {
    const bool named = std::find(options.only.begin(), options.only.end(), check.name) != options.only.end();
    if (options.only.empty() ? check.deep && !options.deep : !named) continue;
    if (options.begins) options.begins(check);
    const Stopwatch watch;
    const double left_s = std::min(check.time_limit_s * (options.deep ? 4 : 1), budget_s - all.seconds());
    CheckFinding result{.name = check.name};
    if (left_s > 0) {
      try {
        result = runner(check, left_s);
      } catch (const std::exception& error) {
        result.found = brief(printable(error.what()), 300);
        result.make(CheckStatus::kFailed, "an answer", "");
      }
    } else {
      result.found = fmt::format("the checks before it took the {} of the suite", duration_text(budget_s));
      result.make(CheckStatus::kFailed, fmt::format("all checks within {}", duration_text(budget_s)),
                  "a machine this slow is not to be used");
    }
    result.seconds = watch.seconds();
    report.results.push_back(std::move(result));
  }
  report.seconds = all.seconds();
  return report;
}

}  // namespace longhaul::control
