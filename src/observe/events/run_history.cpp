#include "observe/events/run_history.h"

#include <algorithm>

#include "observe/events/event_log.h"

namespace longhaul::observe {
namespace {

// Drops the records from `step` on (none, if the run only went forward) and returns their number.
template <class Record>
int64_t drop_from(std::vector<Record>& records, int64_t step) {
  const auto first = std::lower_bound(records.begin(), records.end(), step, [](const Record& r, int64_t s) { return r.step < s; });
  const auto dropped = records.end() - first;
  records.erase(first, records.end());
  return dropped;
}

struct Gather {
  RunHistory& data;

  void operator()(const RunStart& start) {
    data.start = start;
    data.end.reset();
  }
  void operator()(const StepReport& step) {
    data.repeated_steps += drop_from(data.steps, step.step);
    data.steps.push_back(step);
  }
  void operator()(const OuterRound&) {}
  void operator()(const OuterEvery&) {}
  void operator()(const BatchGrowth& growth) { data.growths.push_back(growth); }
  void operator()(const Evaluation& evaluation) {
    drop_from(data.evaluations, evaluation.step);
    data.evaluations.push_back(evaluation);
  }
  void operator()(const CompressionBaseline& baseline) { data.baseline = baseline; }
  void operator()(const CheckpointSaved& checkpoint) { data.checkpoints.push_back(checkpoint); }
  void operator()(const Resume& resume) {
    data.repeated_steps += drop_from(data.steps, resume.step + 1);
    drop_from(data.evaluations, resume.step + 1);
    drop_from(data.growths, resume.step + 1);
    data.resumes.push_back(resume.step);
  }
  void operator()(const Alarm& alarm) { data.alarms.push_back({data.last_wall_time, alarm}); }
  void operator()(const IncidentReport&) {}
  void operator()(const DriverState&) {}
  void operator()(const NonFinite& nonfinite) { data.nonfinite.push_back(nonfinite); }
  void operator()(const Sample& sample) {
    if (!data.samples.empty() && data.samples.back().step != sample.step) data.samples.clear();
    data.samples.push_back(sample);
  }
  void operator()(const MeasuredMemory& memory) {
    const auto same = [&](const MeasuredMemory& earlier) { return earlier.purpose == memory.purpose; };
    if (std::ranges::any_of(data.memory, same)) data.memory.clear();  // a later process begins its list
    data.memory.push_back(memory);
  }
  void operator()(const End& end) { data.end = end; }
};

}  // namespace

std::optional<double> metric(const Metrics& metrics, const std::string& name) {
  const auto found = metrics.find(name);
  return found == metrics.end() ? std::nullopt : std::optional(found->second);
}

void take(RunHistory& history, const Event& event) {
  if (history.generations == 0 || history.first_wall_time == 0) history.first_wall_time = event.common.wall_time;
  history.last_wall_time = event.common.wall_time;
  history.generations = std::max(history.generations, event.common.generation);
  history.run = event.common.run;
  std::visit(Gather{history}, event.body);
}

RunHistory read_run(const std::filesystem::path& run) {
  RunHistory history;
  for_each_event(events_file(run), [&](const Event& event) { take(history, event); });
  return history;
}

}  // namespace longhaul::observe
