// Ledger: what a driver remembers of a run, as a pure function of its journal. apply() takes one entry after
// another, and nothing else changes the ledger. So a driver that reads the journal has the same state as the
// driver before it.
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
  double began_s = 0, last_s = 0;  // times of the first and the last entry
  int64_t drivers = 0;             // number of drivers that have begun
  std::string state = "INIT", state_reason;
  double state_since_s = 0;

  int64_t generation = 0, world = 0;  // 0: no generation was started
  std::vector<NodeRanks> placement;   // placement of that generation
  bool planned = false;
  double generation_since_s = 0;
  int64_t resumed_step = -1;    // of this generation; -1: it has not begun its first step
  double resumed_s = 0;         // when it did
  int64_t ended_step = -1;      // the last step that the generation before it had done
  int64_t committed_step = -1;  // newest step that survives the end of the ranks
  std::map<std::string, NodeChanged> nodes;

  std::vector<IncidentRecord> incidents;  // the newest kMostIncidents
  int64_t incident_count = 0;
  int64_t restarts = 0;     // after faults
  double budget_spent = 0;  // of the token bucket, at budget_at_s; it is refilled evenly
  double budget_at_s = 0;
  int64_t cycles = 0;                    // faults of the program since a newer step was committed
  int64_t committed_at_last_fault = -2;  // -2: there was no fault
  std::map<std::string, int64_t> faults_by_class;

  SearchChanged search;
  // The generation that ran when the search changed last; only later ones run the probe.
  int64_t search_since = 0;
  std::vector<data::SampleRange> skipped;  // skipped for good; sorted, disjoint
  std::vector<std::string> skip_reasons;

  observe::Metrics longest_s;  // longest interval without progress by phase, averaged over generations
  double productive_s = 0;
  std::optional<RunEnded> ended;

  static constexpr size_t kMostIncidents = 1000;

  void apply(const JournalEntry& entry, const Policy& policy);
  // True if the search has changed since the newest generation began: whether that generation dies or
  // survives says nothing more about the search.
  bool probe_is_over() const { return search_since > 0 && search_since >= generation; }
  IncidentRecord* open_incident(int64_t id);

  // Number of incidents since now_s - window_s for which the predicate is true.
  template <class Predicate>
  int64_t count(double now_s, double window_s, Predicate&& predicate) const {
    int64_t found = 0;
    for (const IncidentRecord& incident : incidents)
      found += incident.at_s >= now_s - window_s && predicate(incident) ? 1 : 0;
    return found;
  }
  double budget_left(double now_s, const Policy& policy) const;
  bool operator==(const Ledger&) const = default;
};

}  // namespace longhaul::control
