// Ledger: what a driver remembers of a run, as a pure function of its journal: apply() takes one entry after another, and nothing else changes it.
// So a driver that reads its journal stands where the one before stood.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/faults.h"
#include "control/journal.h"
#include "data/order/data_position.h"

namespace longhaul::control {

struct IncidentRecord {
  IncidentOpened opened;
  double at_s = 0;
  std::optional<IncidentDiagnosed> diagnosed;
  std::optional<IncidentClosed> closed;

  FaultClass fault() const;  // the newest verdict
  double noticed_s() const { return at_s - opened.waited_s; }
  const std::string& node() const { return diagnosed ? diagnosed->node : opened.node; }
  int64_t rank() const { return diagnosed ? diagnosed->rank : opened.rank; }
  observe::IncidentReport report() const;
  bool operator==(const IncidentRecord&) const = default;
};

struct Ledger {
  int64_t next_sequence = 1;
  double began_s = 0, last_s = 0;  // of the first and the last entry
  int64_t drivers = 0;             // that have begun
  std::string state = "INIT", state_reason;
  double state_since_s = 0;

  int64_t generation = 0, world = 0;  // 0: none was started
  std::vector<NodeRanks> placement;   // of that generation
  bool planned = false;
  double generation_since_s = 0;
  int64_t resumed_step = -1;    // of this generation; -1: not so far yet
  double resumed_s = 0;         // when
  int64_t ended_step = -1;      // the last that the generation before it had done
  int64_t committed_step = -1;  // newest step that survives the ranks
  std::map<std::string, NodeChanged> nodes;

  std::vector<IncidentRecord> incidents;  // the newest kMostIncidents
  int64_t incident_count = 0;
  int64_t restarts = 0;     // after faults
  double budget_spent = 0;  // of the token bucket, at budget_at_s: refilled evenly
  double budget_at_s = 0;
  int64_t cycles = 0;                    // faults of the program since a newer step was committed
  int64_t committed_at_last_fault = -2;  // -2: there was no fault
  std::map<std::string, int64_t> faults_by_class;

  SearchChanged search;
  int64_t search_since = 0;                // generation that ran when the search changed last: only a later one tries what it says
  std::vector<data::SampleRange> skipped;  // for good; sorted, apart
  std::vector<std::string> skip_reasons;

  observe::Metrics longest_s;  // interval without progress, by phase: averaged over generations
  double productive_s = 0;
  std::optional<RunEnded> ended;

  static constexpr size_t kMostIncidents = 1000;

  void apply(const JournalEntry& entry, const Policy& policy);
  // The search has changed since the newest generation began: what that one dies of or outlives says nothing any more.
  bool probe_is_over() const { return search_since > 0 && search_since >= generation; }
  IncidentRecord* open_incident(int64_t id);

  // Incidents since now_s - window_s that the predicate takes.
  template <class Predicate>
  int64_t count(double now_s, double window_s, Predicate&& predicate) const {
    int64_t found = 0;
    for (const IncidentRecord& incident : incidents) found += incident.at_s >= now_s - window_s && predicate(incident) ? 1 : 0;
    return found;
  }
  double budget_left(double now_s, const Policy& policy) const;
  bool operator==(const Ledger&) const = default;
};

}  // namespace longhaul::control
