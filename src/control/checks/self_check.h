// SelfCheck: what is looked at before a machine takes part in a run, and when a run stands still and nobody knows why (docs/sources/reliability.md §5.4;
// docs/sources/megascale.md §5.3). Every check has a time limit, limits of what passes, and a result as data. Each runs in a process of its own, so that one that
// hangs or crashes is a result like any other. `longhaul diagnose` prints a report; the node daemon asks for one:
//
//   const SelfCheckReport report = run_self_check({.folder = run}, checks_in_children(program, {.folder = run}));
//   if (!report.passed()) …                                                // report.to_json() goes to the driver
//
// This folder knows no tensors: what the checks named "product" and "alignment" do stands in bench/operators/product_check.h and prove/alignment_check.h.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::control {

// kSlow: it works, at less than it should (a machine to be used last). kSkipped: there is nothing of the kind here, `found` says what.
enum class CheckStatus { kPassed, kSlow, kFailed, kSkipped };
std::string_view name_of(CheckStatus status);  // "passed"

// What has to be the same on all nodes, or on all of one model.
struct Fingerprint {
  std::string name, value;
  bool of_model = false;
  bool operator==(const Fingerprint&) const = default;
};

struct CheckFinding {
  std::string name;
  CheckStatus status = CheckStatus::kPassed;
  std::string found;   // one line
  std::string limit;   // what it had to be
  std::string advice;  // what to do; empty: nothing
  double seconds = 0;
  std::map<std::string, double> values;  // names end with their unit; those that end with "_per_second" are compared between nodes
  std::vector<Fingerprint> fingerprints;

  void make(CheckStatus worse, std::string limit, std::string advice);  // the worse of two findings stays
  std::string signature() const;  // of all fingerprints: what must be equal on nodes of one model; empty: nothing
  nlohmann::ordered_json to_json() const;
  static CheckFinding from_json(const nlohmann::json& json, const std::string& where);
};

std::string node_name();  // LONGHAUL_NODE, else the host's name

struct SelfCheckReport {
  std::string node, boot;  // node_name(), machine().boot
  std::string model;       // processor, features, cores: nodes of one model are compared with each other
  double wall_time = 0, seconds = 0;
  std::vector<CheckFinding> results;

  bool passed() const;                // nothing failed
  const CheckFinding* worst() const;  // the first that failed, else the first that is slow; null: all is well
  nlohmann::ordered_json to_json() const;
  static SelfCheckReport from_json(const nlohmann::json& json, const std::string& where);  // kCommunication where it is none
};

// Limits by name, `longhaul diagnose --limit NAME=VALUE`.
struct Limit {
  std::string_view name;
  double value;
  std::string_view sentence;
};
const std::vector<Limit>& default_limits();
class Limits {
 public:
  double operator[](std::string_view name) const;
  void set(const std::string& name_and_value);  // "disk_free_bytes=1e9"; kUsage with the names there are
 private:
  std::map<std::string, double, std::less<>> changed_;
};

struct Check {
  std::string name, purpose;
  double time_limit_s = 0;
  bool deep = false;  // part of the stop-time suite alone
};
const std::vector<Check>& all_checks();

inline constexpr double kPreFlight_s = 60, kStopTime_s = 600;  // for all checks together: those for which no time is left fail

struct SelfCheckOptions {
  std::filesystem::path folder = ".";  // whose disk is measured
  bool deep = false;                   // the stop-time suite: more memory, and the checks that are deep
  std::vector<std::string> only{};     // by name, in the order of all_checks(); empty: the suite
  std::vector<std::string> limits{};   // "NAME=VALUE"
  std::string plant{};                 // a check that is to find a fault that is not there, for tests
  std::function<void(const Check&)> begins{};
};

using CheckRunner = std::function<CheckFinding(const Check& check, double time_limit_s)>;
// Starts `PROGRAM diagnose --one NAME`, which prints the result, and ends it when its time is over.
CheckRunner checks_in_children(const std::filesystem::path& program, const SelfCheckOptions& options);
SelfCheckReport run_self_check(const SelfCheckOptions& options, const CheckRunner& runner);

}  // namespace longhaul::control
