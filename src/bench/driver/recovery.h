// `bench recovery`: runs the driver against thousands of random schedules of faults in virtual time
// (control/simulation/simulation.h). It reports whether the invariants held, how soon each class of fault
// was detected and repaired, and the effective training rate that follows for published fleets
// (plan/reliability/effective_rate.h).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "control/simulation/simulation.h"
#include "observe/table.h"
#include "plan/reliability/effective_rate.h"

namespace longhaul::bench {

struct RecoveryRequest {
  int64_t schedules = 10000;
  uint64_t seed = 0;  // seed of the first schedule
  plan::MeasuredTimes measured;
};

struct Recovery {
  int64_t schedules = 0, finished = 0, injected = 0, incidents = 0, restarts = 0, generations = 0,
          drivers = 0, single = 0, named = 0;
  double virtual_s = 0, seconds = 0;
  std::vector<std::pair<uint64_t, std::string>> broken;  // seed and the first invariant that did not hold
  // Ends of runs that did not finish: the class, or the reason.
  std::map<std::string, int64_t> ends;
  std::map<std::string, int64_t> injected_by_kind;
  struct OfClass {
    int64_t incidents = 0;
    double recovered_mean_s = 0, recovered_p99_s = 0;
  };
  std::map<std::string, OfClass> classes;
  struct Rate {
    plan::RateScenario scenario;
    plan::EffectiveRate rate;
    double formula = 0;
  };
  std::vector<Rate> rates;
  bool good() const { return broken.empty(); }
};

Recovery measure_recovery(const RecoveryRequest& request);
std::string text_of(const Recovery& measured, bool colours);
nlohmann::ordered_json to_json(const Recovery& measured);

}  // namespace longhaul::bench
