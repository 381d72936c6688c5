#include "detect/minder/follow.h"

#include <algorithm>

namespace longhaul::detect {

bool Follower::is_same(const Pull& pull) const {
  return stream_ && pull.machines == about_.machines && pull.metrics == about_.metrics &&
         pull.class_of == about_.class_of && pull.classes == about_.classes;
}

void Follower::begin(const Pull& pull) {
  stream_.emplace(models_, options_, pull.machines, pull.metrics, pull.class_of, pull.classes);
  about_ = {
      .metrics = pull.metrics, .machines = pull.machines, .class_of = pull.class_of, .classes = pull.classes};
  fed_s_ = pull.first_s - 1;
}

Follower::News Follower::more() {
  News news;
  std::optional<double> from;
  if (stream_) from = fed_s_ + 1 - static_cast<double>(kHeldBack);
  RunSamples samples = read_(from);
  if (!is_same(samples.pull)) {
    if (stream_) {
      news.remarks.emplace_back(
          "machines or metrics have changed: what was seen of the others is looked at again");
      samples = read_(std::nullopt);
    }
    begin(samples.pull);
  }
  const Pull& pull = samples.pull;
  news.remarks.insert(news.remarks.end(), samples.remarks.begin(), samples.remarks.end());
  news.machines = pull.count();
  std::vector<float> row(pull.metrics.size() * pull.machines.size());
  for (int64_t s = 0; s < pull.seconds - kHeldBack; ++s) {
    const double time = pull.first_s + static_cast<double>(s);
    if (time <= fed_s_) continue;
    for (size_t m = 0; m < pull.metrics.size(); ++m)
      std::copy(pull.row(m, s), pull.row(m, s) + pull.count(),
                row.begin() + static_cast<std::ptrdiff_t>(m * pull.machines.size()));
    for (const Alert& alert : stream_->next(time, row)) {
      const auto at = std::ranges::find(pull.machines, alert.machine) - pull.machines.begin();
      if (alert.metric != kNoData || !pull.absent(static_cast<int32_t>(at), time))
        news.alerts.push_back(alert);
    }
    fed_s_ = time, ++news.seconds;
  }
  news.last_s = fed_s_;
  return news;
}

void Follower::replaced(const std::string& machine) {
  if (stream_ && std::ranges::find(about_.machines, machine) != about_.machines.end())
    stream_->replaced(machine);
}

}  // namespace longhaul::detect
