// SelfCheck: what is checked on a machine before it takes part in a run, and when a run makes no progress and
// nobody knows why (docs/sources/reliability.md §5.4; docs/sources/megascale.md §5.3). Every check has a time
// limit, limits that its values must keep, and a result as data. Each check runs in a process of its own, so
// that one that hangs or crashes gives a result like any other. `longhaul diagnose` prints a report; the node
// daemon runs the checks so:
//
//   const SelfCheckReport report = run_self_check({.folder = run}, checks_in_children(program,
//       {.folder = run}));
//   // report.to_json() goes to the driver
//   if (!report.passed()) …
//
// This folder knows no tensors: the checks named "product" and "alignment" are implemented in
// bench/operators/product_check.h and prove/alignment_check.h.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::control {

// kSlow: the part works, but below its expected rate (the machine is to be used last). kSkipped: the machine
// has nothing of this kind; `found` says what is missing.
enum class CheckStatus { kPassed, kSlow, kFailed, kSkipped };
std::string_view name_of(CheckStatus status);  // "passed"

// Fingerprint: a value that must be equal on all nodes, or, with `of_model`, on all nodes of one machine
// model.
struct Fingerprint {
  std::string name, value;
  bool of_model = false;
  bool operator==(const Fingerprint&) const = default;
};

struct CheckFinding {
  std::string name;
  CheckStatus status = CheckStatus::kPassed;
  std::string found;   // one line
  std::string limit;   // the limit that it was compared with
  std::string advice;  // what the user should do; empty: nothing
  double seconds = 0;
  // Names end with their unit; those that end with "_per_second" are compared between nodes.
  std::map<std::string, double> values;
  std::vector<Fingerprint> fingerprints;

  // Keeps the worse one of the status so far and `worse`.
  void make(CheckStatus worse, std::string limit, std::string advice);
  // Over all fingerprints, must be equal on nodes of one model; empty: there is nothing to compare.
  std::string signature() const;
  nlohmann::ordered_json to_json() const;
  static CheckFinding from_json(const nlohmann::json& json, const std::string& where);
};

std::string node_name();  // LONGHAUL_NODE, else the host's name

struct SelfCheckReport {
  std::string node, boot;  // node_name(), machine().boot
  std::string model;       // processor, features, cores: nodes of one model are compared with each other
  double wall_time = 0, seconds = 0;
  std::vector<CheckFinding> results;

  bool passed() const;  // nothing failed
  // The first result that failed, else the first that is slow; null: all is well.
  const CheckFinding* worst() const;
  nlohmann::ordered_json to_json() const;
  // kCommunication where `json` is no report
  static SelfCheckReport from_json(const nlohmann::json& json, const std::string& where);
};

// Limit: a named limit, which `longhaul diagnose --limit NAME=VALUE` changes.
struct Limit {
  std::string_view name;
  double value;
  std::string_view sentence;
};
const std::vector<Limit>& default_limits();
class Limits {
 public:
  double operator[](std::string_view name) const;
  // "disk_free_bytes=1e9"; kUsage, with the known names, for any other name
  void set(const std::string& name_and_value);

 private:
  std::map<std::string, double, std::less<>> changed_;
};

struct Check {
  std::string name, purpose;
  double time_limit_s = 0;
  bool deep = false;  // only in the stop-time suite
};
const std::vector<Check>& all_checks();

// Time for all checks together; checks for which no time is left fail.
inline constexpr double kPreFlight_s = 60, kStopTime_s = 600;

struct SelfCheckOptions {
  std::filesystem::path folder = ".";  // its disk is measured
  // the stop-time suite: it tests more memory, and includes the checks marked deep
  bool deep = false;
  // Names of the checks to run, in the order of all_checks(); empty: the whole suite
  std::vector<std::string> only{};
  std::vector<std::string> limits{};  // "NAME=VALUE"
  // name of a check that is to report a fault that is not there, for tests
  std::string plant{};
  std::function<void(const Check&)> begins{};
};

using CheckRunner = std::function<CheckFinding(const Check& check, double time_limit_s)>;
// Starts `PROGRAM diagnose --one NAME`, which prints the result, and kills it when its time limit is over.
CheckRunner checks_in_children(const std::filesystem::path& program, const SelfCheckOptions& options);
SelfCheckReport run_self_check(const SelfCheckOptions& options, const CheckRunner& runner);

}  // namespace longhaul::control
