#include "train/saving/save_interval.h"

#include <algorithm>
#include <set>

#include "observe/events/event_log.h"
#include "plan/reliability/checkpoint_interval.h"

namespace longhaul::train {

namespace {
constexpr double kLongest_s = 1800;
}

EarlierStarts earlier_starts(const std::filesystem::path& events, int64_t generation) {
  EarlierStarts earlier;
  std::set<int64_t> begun, ended;
  observe::for_each_event(events, [&](const observe::Event& event) {
    if (event.common.generation >= generation) return;
    if (const auto* step = std::get_if<observe::StepReport>(&event.body)) {
      earlier.trained_s += step->milliseconds * 1e-3;
      begun.insert(event.common.generation);
    }
    const auto* end = std::get_if<observe::End>(&event.body);
    if (end != nullptr && end->reason != "error") ended.insert(event.common.generation);
  });
  earlier.failures = std::ranges::count_if(begun, [&](int64_t start) { return !ended.contains(start); });
  return earlier;
}

SaveInterval::SaveInterval(const recipe::TrainOptions& train, const EarlierStarts& earlier)
    : expected_s_(train.mean_hours_to_failure * 3600), earlier_(earlier) {}

void SaveInterval::ended(const checkpoint::SaveResult& result) {
  pause_s_ = result.blocking_milliseconds * 1e-3;
  writing_s_ = result.writing_seconds;
}

double SaveInterval::interval_s() const {
  const double mean =
      plan::observed_mean_to_failure_s(expected_s_, earlier_.trained_s + start_.seconds(), earlier_.failures);
  return std::min(std::max(plan::daly_interval_s(pause_s_, mean), writing_s_), kLongest_s);
}

}  // namespace longhaul::train
