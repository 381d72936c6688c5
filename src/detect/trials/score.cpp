#include "detect/trials/score.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace longhaul::detect {

std::vector<Verdict> verdicts_of(const std::vector<Fault>& faults, const std::vector<std::string>& machines,
                                 const std::vector<Alert>& alerts, const std::vector<size_t>& looked_at,
                                 int64_t continuity_s) {
  const auto count = static_cast<int64_t>(machines.size());
  if (faults.empty()) return {{.type = "none", .machines = count, .false_alarm = !alerts.empty()}};
  std::vector<Alert> in_time = alerts;
  std::stable_sort(in_time.begin(), in_time.end(),
                   [](const Alert& a, const Alert& b) { return a.raised_s < b.raised_s; });
  std::vector<Verdict> verdicts;
  for (size_t i = 0; i < faults.size(); ++i) {
    const Fault& fault = faults[i];
    Verdict verdict{.type = fault.type,
                    .machines = count,
                    .missed = true,
                    .detectable = detectable(fault, looked_at, continuity_s),
                    .episodes = static_cast<int64_t>(faults.size())};
    const double from =
        i == 0 ? -std::numeric_limits<double>::infinity() : static_cast<double>(fault.onset_s);
    const double to = i + 1 < faults.size() ? static_cast<double>(faults[i + 1].onset_s)
                                            : std::numeric_limits<double>::infinity();
    for (const Alert& alert : in_time) {
      if (alert.raised_s < from || alert.raised_s >= to) continue;
      const auto named =
          static_cast<int32_t>(std::find(machines.begin(), machines.end(), alert.machine) - machines.begin());
      verdict.by_group = std::find(fault.group.begin(), fault.group.end(), named) != fault.group.end();
      verdict.found = alert.raised_s >= static_cast<double>(fault.onset_s) &&
                      (named == fault.machine || verdict.by_group);
      verdict.missed = verdict.false_alarm = !verdict.found;
      if (verdict.found) verdict.delay_s = alert.raised_s - static_cast<double>(fault.onset_s);
      break;
    }
    verdicts.push_back(verdict);
  }
  return verdicts;
}

Interval wilson(int64_t hits, int64_t trials) {
  if (trials == 0) return {};
  constexpr double kZ = 1.959963984540054;
  const double n = static_cast<double>(trials), p = static_cast<double>(hits) / n;
  const double centre = (p + kZ * kZ / (2 * n)) / (1 + kZ * kZ / n);
  const double half = kZ * std::sqrt(p * (1 - p) / n + kZ * kZ / (4 * n * n)) / (1 + kZ * kZ / n);
  return {std::max(0.0, centre - half), std::min(1.0, centre + half)};
}

void Tally::add(const Verdict& verdict) {
  ++cases;
  faults += verdict.type != "none";
  found += verdict.found, missed += verdict.missed, false_alarms += verdict.false_alarm;
  by_group += verdict.found && verdict.by_group, detectable += verdict.detectable;
  if (verdict.found) delays.push_back(verdict.delay_s);
}

double Tally::precision() const {
  return found + false_alarms == 0 ? 1
                                   : static_cast<double>(found) / static_cast<double>(found + false_alarms);
}
double Tally::recall() const {
  return faults == 0 ? 1 : static_cast<double>(found) / static_cast<double>(faults);
}
double Tally::f1() const {
  return precision() + recall() == 0 ? 0 : 2 * precision() * recall() / (precision() + recall());
}
double Tally::ceiling() const {
  return faults == 0 ? 1 : static_cast<double>(detectable) / static_cast<double>(faults);
}
double Tally::ceiling_f1() const { return 2 * ceiling() / (1 + ceiling()); }

Tally tally_of(const std::vector<Verdict>& verdicts) {
  Tally tally;
  for (const Verdict& verdict : verdicts) tally.add(verdict);
  return tally;
}

std::map<std::string, Tally> tally_by(const std::vector<Verdict>& verdicts,
                                      std::string (*key)(const Verdict&)) {
  std::map<std::string, Tally> tallies;
  for (const Verdict& verdict : verdicts) tallies[key(verdict)].add(verdict);
  return tallies;
}

Paired mcnemar(const std::vector<Verdict>& first, const std::vector<Verdict>& second) {
  LONGHAUL_ASSERT(first.size() == second.size(), "{} and {}", first.size(), second.size());
  Paired paired;
  const auto right = [](const Verdict& verdict) {
    return verdict.type == "none" ? !verdict.false_alarm : verdict.found;
  };
  for (size_t i = 0; i < first.size(); ++i) {
    paired.only_first += right(first[i]) && !right(second[i]);
    paired.only_second += right(second[i]) && !right(first[i]);
  }
  const int64_t n = paired.only_first + paired.only_second,
                few = std::min(paired.only_first, paired.only_second);
  double log_choose = 0, tail = 0;
  for (int64_t k = 0; k <= few; ++k) {
    if (k > 0) log_choose += std::log(static_cast<double>(n - k + 1) / static_cast<double>(k));
    tail += std::exp(log_choose - static_cast<double>(n) * std::log(2.0));
  }
  paired.p = std::min(1.0, 2 * tail);
  return paired;
}

}  // namespace longhaul::detect
