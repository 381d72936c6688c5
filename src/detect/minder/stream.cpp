#include "detect/minder/stream.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "detect/minder/agreement.h"

namespace longhaul::detect {
namespace {

constexpr int64_t kCarried = 8;  // seconds for which a sample replaces missing ones

}  // namespace

Stream::Stream(const Models& models, const DetectOptions& options, std::vector<std::string> machines,
               std::vector<size_t> given, std::vector<int32_t> class_of, std::vector<std::string> classes)
    : options_(options),
      machines_(std::move(machines)),
      classes_(std::move(classes)),
      metrics_(std::move(given)),
      class_of_(std::move(class_of)) {
  const size_t count = machines_.size();
  class_of_.resize(count, 0);
  last_.assign(metrics_.size() * count, std::nanf(""));
  age_.assign(metrics_.size() * count, 0);
  told_silent_.assign(count, false);
  for (Channel& channel : models.channels(options.variant, order_of(models, options))) {
    std::vector<size_t> places;
    for (const size_t metric : channel.metrics) {
      const auto found = std::find(metrics_.begin(), metrics_.end(), metric);
      if (found != metrics_.end()) places.push_back(static_cast<size_t>(found - metrics_.begin()));
    }
    if (places.size() < channel.metrics.size()) continue;
    longest_ = std::max(longest_, channel.embedding->window());
    channels_.push_back(std::move(channel));
    places_.push_back(std::move(places));
  }
  for (size_t c = 0; c < channels_.size(); ++c) {
    for (size_t peers = 0; peers < classes_.size(); ++peers) {
      std::vector<int32_t> members;
      for (size_t i = 0; i < count; ++i) {
        if (class_of_[i] == static_cast<int32_t>(peers)) members.push_back(static_cast<int32_t>(i));
      }
      if (static_cast<int64_t>(members.size()) < kFewestPeers) continue;
      const int followed = followed_of(options, class_of_, static_cast<int32_t>(peers));
      most_followed_ = std::max(most_followed_, followed);
      const Rule rule = rule_of(models.threshold(options.variant, channels_[c]), options);
      const auto size = static_cast<int64_t>(members.size());
      std::optional<Continuity> alone;
      if (needs_agreement(options, size, channels_.size(), rule))
        alone.emplace(alone_rule(rule), followed, static_cast<int64_t>(count));
      watches_.push_back({WindowScorer(channels_[c], options.distance, followed, size),
                          Continuity(rule, followed, static_cast<int64_t>(count)),
                          std::move(alone),
                          {},
                          {},
                          {},
                          rule,
                          c,
                          static_cast<int32_t>(peers),
                          members});
    }
  }
  if (watches_.empty()) {
    throw Error(
        {.code = ExitCode::kData,
         .what = "nothing can be watched",
         .expected = "four machines of one class, and one of the metrics that there are models of",
         .found = std::to_string(count) + " machines, " + std::to_string(metrics_.size()) + " metrics"});
  }
}

std::vector<float> Stream::filled(std::span<const float> values) {
  std::vector<float> row(values.begin(), values.end());
  for (size_t i = 0; i < row.size(); ++i) {
    if (!std::isnan(row[i])) {
      last_[i] = row[i], age_[i] = 0;
    } else if (++age_[i] <= kCarried) {
      row[i] = last_[i];
    }
  }
  return row;
}

std::vector<Alert> Stream::silent(double time_s) {
  std::vector<Alert> alerts;
  const size_t count = machines_.size();
  std::vector<int64_t> shortest(count, std::numeric_limits<int64_t>::max());
  for (size_t i = 0; i < age_.size(); ++i) shortest[i % count] = std::min(shortest[i % count], age_[i]);
  const auto reporting = std::count(shortest.begin(), shortest.end(), 0);
  for (size_t i = 0; i < count; ++i) {
    if (shortest[i] == 0) told_silent_[i] = false;
    if (static_cast<double>(shortest[i]) < options_.silent_s || told_silent_[i] ||
        2 * reporting <= static_cast<int64_t>(count))
      continue;
    told_silent_[i] = true;
    alerts.push_back({.machine = machines_[i],
                      .metric = kNoData,
                      .peers = classes_[static_cast<size_t>(class_of_[i])],
                      .first_s = time_s - static_cast<double>(shortest[i]) + 1,
                      .raised_s = time_s,
                      .score = 1});
  }
  return alerts;
}

bool Stream::any_agrees(const Watch& watch, const Alarm& alarm) const {
  return std::ranges::any_of(watches_, [&](const Watch& other) {
    if (other.peers != watch.peers || other.channel == watch.channel) return false;
    const int64_t index = second_ - channels_[other.channel].embedding->window();
    return other.continuity.length(alarm.machine, index) >= agreeing_windows(other.rule);
  });
}

// Called once every watch has handled the second.
std::vector<Alarm> Stream::alarms_of_second(Watch& watch) {
  std::vector<Alarm> alarms = watch.found;
  if (!watch.alone) return alarms;
  std::erase_if(alarms, [&](const Alarm& alarm) { return !any_agrees(watch, alarm); });
  for (const Alarm& alarm : alarms) watch.told[alarm.machine] = alarm.first;
  for (const Alarm& alarm : watch.found_alone) {
    const auto told = watch.told.find(alarm.machine);
    if (told == watch.told.end() || told->second != alarm.first) alarms.push_back(alarm);
  }
  return alarms;
}

std::vector<Alert> Stream::next(double time_s, std::span<const float> values) {
  LONGHAUL_ASSERT(values.size() == last_.size(), "{} values", values.size());
  ring_.push_back(filled(values)), times_.push_back(time_s);
  if (static_cast<int64_t>(ring_.size()) > longest_) ring_.pop_front();
  if (static_cast<int64_t>(times_.size()) > 2 * longest_ + 4 * options_.continuity_s) times_.pop_front();
  std::vector<Alert> alerts = silent(time_s);
  ++second_;
  for (Watch& watch : watches_) look_at_second(watch);
  for (Watch& watch : watches_) {
    for (const Alarm& alarm : alarms_of_second(watch)) {
      // The first second of the first window, if it is not too old to be in the ring.
      const int64_t seconds_ago = second_ - 1 - alarm.first,
                    remembered = static_cast<int64_t>(times_.size()) - 1;
      alerts.push_back(
          {.machine = machines_[static_cast<size_t>(alarm.machine)],
           .metric = channels_[watch.channel].name,
           .peers = classes_[static_cast<size_t>(watch.peers)],
           .first_s = times_[static_cast<size_t>(remembered - std::min(remembered, seconds_ago))],
           .raised_s = time_s,
           .score = alarm.score});
    }
  }
  return alerts;
}

void Stream::look_at_second(Watch& watch) {
  watch.found.clear(), watch.found_alone.clear();
  const int64_t window = channels_[watch.channel].embedding->window(), index = second_ - window;
  if (index < 0) return;
  std::vector<const float*> rows;
  for (int64_t t = 0; t < window; ++t) {
    for (const size_t place : places_[watch.channel])
      rows.push_back(ring_[ring_.size() - static_cast<size_t>(window - t)].data() + place * machines_.size());
  }
  std::vector<Candidate> best(static_cast<size_t>(most_followed_));
  watch.scorer.score(rows, watch.members, best.data());
  watch.found = watch.continuity.next(index, best.data());
  if (watch.alone) watch.found_alone = watch.alone->next(index, best.data());
}

void Stream::replaced(const std::string& machine) {
  const auto at = std::find(machines_.begin(), machines_.end(), machine) - machines_.begin();
  LONGHAUL_ASSERT(at < static_cast<std::ptrdiff_t>(machines_.size()), "{}", machine);
  for (Watch& watch : watches_) {
    watch.continuity.forget(static_cast<int32_t>(at));
    if (watch.alone) watch.alone->forget(static_cast<int32_t>(at));
  }
  for (size_t m = 0; m < metrics_.size(); ++m) {
    const size_t i = m * machines_.size() + static_cast<size_t>(at);
    last_[i] = std::nanf(""), age_[i] = 0;
    for (auto& row : ring_) row[i] = std::nanf("");
  }
  told_silent_[static_cast<size_t>(at)] = false;
}

}  // namespace longhaul::detect
