// The events of a run, collected for a page or a comparison: the state that counts in the end. Steps done
// again after a resume replace the earlier record, and so do evaluations; all checkpoints, resumes and alarms
// are kept. If a step has raised the machine's peak, the shares (MFU, HFU) of the process's earlier steps are
// those of the raised peak too, so that all can be compared and none is above 1.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "observe/events/event.h"

namespace longhaul::observe {

struct TimedAlarm {
  double wall_time = 0;
  Alarm alarm;
};

struct RunHistory {
  std::string run;
  double first_wall_time = 0, last_wall_time = 0;
  int64_t generations = 0;        // processes that wrote to the stream
  std::optional<RunStart> start;  // the latest
  std::vector<StepReport> steps;  // by step, each step once
  std::vector<Evaluation> evaluations;
  std::vector<BatchGrowth> growths;  // of the batch
  std::vector<CheckpointSaved> checkpoints;
  std::vector<int64_t> resumes;  // steps of the checkpoints from which the run resumed
  std::vector<NonFinite> nonfinite;
  std::vector<TimedAlarm> alarms;
  std::vector<Sample> samples;  // those of the last step that has any
  std::optional<CompressionBaseline> baseline;
  std::vector<MeasuredMemory> memory;  // from the latest process that reported it
  std::optional<End> end;              // of the latest process; none: it still runs, or was killed
  int64_t repeated_steps = 0;          // steps done again after a resume
};

// metric() returns one metric of a record (none: it was not measured); metric_names() returns all names in
// the records.
std::optional<double> metric(const Metrics& metrics, const std::string& name);
template <class Record>
std::set<std::string> metric_names(const std::vector<Record>& records) {
  std::set<std::string> names;
  for (const Record& record : records) {
    for (const auto& [name, value] : record.metrics) names.insert(name);
  }
  return names;
}

// Below this share of the run's cores, what other programs take is not worth a word.
inline constexpr double kTakenByOthers = 0.05;
// The mean share of the run's cores that other programs took in the steps that count; none: it was not
// measured.
std::optional<double> taken_by_others(const std::vector<StepReport>& steps);
// "other programs took 48 % of the run's cores", or empty
std::string others_text(std::optional<double> share);

void take(RunHistory& history, const Event& event);     // adds the next event of the stream
RunHistory read_run(const std::filesystem::path& run);  // a run folder or an events.jsonl

}  // namespace longhaul::observe
