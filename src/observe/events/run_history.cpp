#include "observe/events/run_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "observe/events/event_log.h"
#include "observe/format.h"

namespace longhaul::observe {
namespace {

// Drops the records from `step` on (none, if the run only went forward) and returns their number.
template <class Record>
int64_t drop_from(std::vector<Record>& records, int64_t step) {
  const auto first = std::lower_bound(records.begin(), records.end(), step,
                                      [](const Record& r, int64_t s) { return r.step < s; });
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
    take_peak();
  }
  void take_peak() const;
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

// Streams of earlier versions do not say that a step was faster than the peak: their shares above 1 do.
void Gather::take_peak() const {
  if (!data.start || !data.start->peak_flops_per_second) return;
  const double before = *data.start->peak_flops_per_second;
  const StepReport& last = data.steps.back();
  const double share = std::max(last.mfu.value_or(0), last.hfu.value_or(0));
  const double peak = last.peak_flops_per_second ? *last.peak_flops_per_second : before * share;
  if (!(peak > before)) return;
  const auto is_of = [&](const StepReport& step) {  // its shares are of the peak so far
    if (!step.mfu || !step.model_flops_per_second) return false;
    return std::abs(*step.model_flops_per_second - *step.mfu * before) <= 1e-3 * *step.model_flops_per_second;
  };
  for (StepReport& step : data.steps) {
    if (!is_of(step)) continue;
    for (auto each : {&StepReport::mfu, &StepReport::mfu_full_attention, &StepReport::hfu}) {
      if (step.*each) *(step.*each) *= before / peak;
    }
  }
  data.start->peak_flops_per_second = peak;
}

}  // namespace

std::optional<double> taken_by_others(const std::vector<StepReport>& steps) {
  double taken_ms = 0, told_ms = 0, since_ms = 0;
  for (const StepReport& step : steps) {
    since_ms += step.milliseconds;
    if (!step.taken_by_others) continue;
    taken_ms += *step.taken_by_others * since_ms;
    told_ms += std::exchange(since_ms, 0);
  }
  return told_ms > 0 ? std::optional(taken_ms / told_ms) : std::nullopt;
}

std::string others_text(std::optional<double> share) {
  if (!share || *share < kTakenByOthers) return "";
  return fmt::format("other programs took {} of the run's cores", percent(*share));
}

std::optional<double> metric(const Metrics& metrics, const std::string& name) {
  const auto found = metrics.find(name);
  return found == metrics.end() ? std::nullopt : std::optional(found->second);
}

void take(RunHistory& history, const Event& event) {
  if (history.generations == 0 || history.first_wall_time == 0)
    history.first_wall_time = event.common.wall_time;
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
