// Compares alerts with the faults that happened, case by case. In a case with a fault, it is found if the
// first alert after its onset (and before the next fault's) names the machine, or one of the group to which
// it spread. An alert for another machine is a miss and a false alarm; no alert is a miss. In a case without
// a fault, any alert is a false alarm.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "detect/minder/detector.h"
#include "detect/trials/simulate.h"

namespace longhaul::detect {

struct Verdict {
  std::string type;  // of the fault; "none" for a normal case
  int64_t machines = 0;
  bool found = false, missed = false, false_alarm = false;
  bool by_group = false;    // another machine of the group was named
  bool detectable = false;  // the fault is within the generator's ceiling
  double delay_s = 0;       // for a found fault: from onset to the alert
  int64_t episodes = 1;     // number of faults in the case
};
std::vector<Verdict> verdicts_of(const std::vector<Fault>& faults, const std::vector<std::string>& machines,
                                 const std::vector<Alert>& alerts, const std::vector<size_t>& looked_at,
                                 int64_t continuity_s);

struct Interval {
  double low = 0, high = 1;
};
Interval wilson(int64_t hits, int64_t trials);  // 95 %

struct Tally {
  int64_t cases = 0, faults = 0, found = 0, missed = 0, false_alarms = 0, by_group = 0, detectable = 0;
  std::vector<double> delays;

  void add(const Verdict& verdict);
  double precision() const;  // 1 when there was no alert
  double recall() const;     // 1 when there was no fault
  double f1() const;
  // Highest possible recall; a detector with this continuity and these metrics exceeds it only by chance.
  double ceiling() const;
  double ceiling_f1() const;  // the F1 of that recall with perfect precision
};
Tally tally_of(const std::vector<Verdict>& verdicts);
std::map<std::string, Tally> tally_by(const std::vector<Verdict>& verdicts,
                                      std::string (*key)(const Verdict&));

// Paired: two detectors on the same cases. It has the numbers of faults that only one of them found, and the
// exact probability of a split at least as uneven by chance.
struct Paired {
  int64_t only_first = 0, only_second = 0;
  double p = 1;
};
Paired mcnemar(const std::vector<Verdict>& first, const std::vector<Verdict>& second);

}  // namespace longhaul::detect
