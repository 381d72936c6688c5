// A run's events gathered for a page or a comparison: what counts in the end. Steps done again after a resume replace
// the earlier record, as do evaluations; checkpoints, resumes and alarms are kept all.
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
  std::vector<StepReport> steps;  // by step, each once
  std::vector<Evaluation> evaluations;
  std::vector<BatchGrowth> growths;  // of the batch
  std::vector<CheckpointSaved> checkpoints;
  std::vector<int64_t> resumes;  // steps of the checkpoints gone on from
  std::vector<NonFinite> nonfinite;
  std::vector<TimedAlarm> alarms;
  std::vector<Sample> samples;  // those of the last step that has any
  std::optional<CompressionBaseline> baseline;
  std::vector<MeasuredMemory> memory;  // of the latest process that has said it
  std::optional<End> end;              // of the latest process; none: it runs, or was killed
  int64_t repeated_steps = 0;          // done again after a resume
};

// Of what a task measures: the names that any of the records has, and one of them (none: it was not measured).
std::optional<double> metric(const Metrics& metrics, const std::string& name);
template <class Record>
std::set<std::string> metric_names(const std::vector<Record>& records) {
  std::set<std::string> names;
  for (const Record& record : records) {
    for (const auto& [name, value] : record.metrics) names.insert(name);
  }
  return names;
}

void take(RunHistory& history, const Event& event);     // the next of the stream
RunHistory read_run(const std::filesystem::path& run);  // a run folder or an events.jsonl

}  // namespace longhaul::observe
