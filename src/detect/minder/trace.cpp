#include "detect/minder/trace.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/threads/parallel.h"

namespace longhaul::detect {
namespace {

struct Moments {
  double mean = 0, deviation = 0;
};

Moments moments_of(double sum, double square, int64_t count) {
  const double mean = sum / static_cast<double>(count),
               variance = std::max(0.0, square / static_cast<double>(count) - mean * mean);
  return {mean, std::sqrt(variance)};
}

// noise: σ²/D², for one machine at D from others with deviation σ.
double share_of_noise(double noise, int64_t machines) {
  const double largest =
      std::log(static_cast<double>(machines)) / std::log(static_cast<double>(kReferenceMachines));
  return 1 / std::sqrt(1 + static_cast<double>(kReferenceMachines - 1) * noise * largest);
}

// As many as leave enough others.
int64_t candidates_among(int64_t machines, int64_t followed) {
  return std::min<int64_t>(followed, machines - kFewestPeers + 1);
}

float middle_of(std::vector<float> values) {
  const auto half = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), half, values.end());
  return *half;
}

}  // namespace

double share_among_reference(double share, int64_t machines) {
  if (share <= 0 || machines < kFewestPeers) return 0;
  const double noise = std::max(0.0, 1 / (share * share) - 1) / static_cast<double>(machines - 1);
  return share_of_noise(noise, machines);
}

double share_of_deviations(double deviations, int64_t machines) {
  return deviations <= 0 ? 0 : share_of_noise(1 / (deviations * deviations), machines);
}

WindowScorer::WindowScorer(const Channel& channel, Distance distance, int followed, int64_t machines)
    : channel_(channel), distance_(distance), followed_(followed) {
  const int64_t stride = padded(machines), inputs = static_cast<int64_t>(channel.metrics.size());
  windows_.resize(static_cast<size_t>(channel.embedding->window() * inputs * stride));
  embedded_.resize(static_cast<size_t>(channel.embedding->dims() * stride));
  sums_.resize(static_cast<size_t>(stride));
  apart_.resize(static_cast<size_t>(followed * stride));
}

int64_t WindowScorer::score(std::span<const float* const> rows, std::span<const int32_t> members,
                            Candidate* into) {
  std::fill(into, into + followed_, Candidate{});
  present_.clear();
  for (const int32_t machine : members) {
    bool whole = true;
    for (size_t r = 0; whole && r < rows.size(); ++r) whole = !std::isnan(rows[r][machine]);
    if (whole) present_.push_back(machine);
  }
  const auto count = static_cast<int64_t>(present_.size());
  if (count < kFewestPeers) return count;
  const int64_t stride = padded(count);
  for (size_t r = 0; r < rows.size(); ++r) {
    float* row = windows_.data() + static_cast<int64_t>(r) * stride;
    for (int64_t i = 0; i < count; ++i) row[i] = rows[r][present_[static_cast<size_t>(i)]];
    std::fill(row + count, row + stride, 0.5f);
  }
  channel_.embedding->embed(windows_.data(), stride, embedded_.data());
  if (channel_.apart == Apart::kRobustZ) {
    robust_candidates(count, into);
    return count;
  }
  distance_sums(distance_, embedded_.data(), channel_.embedding->dims(), stride, count, sums_.data());
  candidates(count, stride, into);
  return count;
}

void WindowScorer::distances_from(int64_t machine, int64_t count, int64_t stride, float* into) const {
  std::fill(into, into + count, 0.0f);
  for (int64_t k = 0; k < channel_.embedding->dims(); ++k) {
    const float* row = embedded_.data() + k * stride;
    for (int64_t i = 0; i < count; ++i) {
      const float difference = std::abs(row[i] - row[machine]);
      if (distance_ == Distance::kEuclidean)
        into[i] += difference * difference;
      else if (distance_ == Distance::kManhattan)
        into[i] += difference;
      else
        into[i] = std::max(into[i], difference);
    }
  }
  if (distance_ == Distance::kEuclidean) {
    for (int64_t i = 0; i < count; ++i) into[i] = std::sqrt(into[i]);
  }
}

void WindowScorer::candidates(int64_t count, int64_t stride, Candidate* into) {
  order_.resize(static_cast<size_t>(count));
  std::iota(order_.begin(), order_.end(), 0);
  const int64_t most = candidates_among(count, followed_);
  const auto further = [&](int32_t a, int32_t b) {
    return sums_[static_cast<size_t>(a)] > sums_[static_cast<size_t>(b)];
  };
  std::partial_sort(order_.begin(), order_.begin() + most, order_.end(), further);
  for (int64_t f = 0; f < most; ++f)
    distances_from(order_[static_cast<size_t>(f)], count, stride, apart_.data() + f * stride);
  // Sums without the candidates; then each candidate's own distances are added in turn.
  rest_.assign(sums_.begin(), sums_.begin() + count);
  for (int64_t f = 0; f < most; ++f) {
    for (int64_t j = 0; j < count; ++j)
      rest_[static_cast<size_t>(j)] -= static_cast<double>(apart_[static_cast<size_t>(f * stride + j)]);
  }
  const int64_t outside = count - most, compared = outside + 1;
  std::vector<float> middle(static_cast<size_t>(outside));
  for (int64_t f = 0; f < most; ++f, ++into) {
    const auto own = static_cast<size_t>(order_[static_cast<size_t>(f)]);
    const float* apart = apart_.data() + f * stride;
    // Moments about it stay accurate where one machine is far from many equal ones.
    const double origin = rest_[own];
    double sum = 0, square = 0;
    for (int64_t i = 0; i < outside; ++i) {
      const auto other = static_cast<size_t>(order_[static_cast<size_t>(most + i)]);
      const double offset = rest_[other] + static_cast<double>(apart[other]) - origin;
      sum += offset, square += offset * offset;
      middle[static_cast<size_t>(i)] = apart[other];
    }
    Moments moments = moments_of(sum, square, compared);
    // So that rounding errors of equal sums do not look like scores.
    moments.deviation += 1e-9 + 1e-5 * std::abs(origin);
    const double share = share_among_reference(
        -moments.mean / moments.deviation / std::sqrt(static_cast<double>(compared - 1)), compared);
    if (share < static_cast<double>(kLeastShare)) continue;
    const auto half = middle.begin() + outside / 2;
    std::nth_element(middle.begin(), half, middle.end());
    *into = {present_[own], static_cast<float>(share), *half};
  }
}

void WindowScorer::robust_candidates(int64_t count, Candidate* into) {
  constexpr double kOfNormal = 1.4826;  // deviation / median absolute deviation of normal noise
  std::vector<float> offsets(embedded_.begin(), embedded_.begin() + count);
  const float middle = middle_of(offsets);
  for (float& each : offsets) each = std::abs(each - middle);
  const double deviation = kOfNormal * static_cast<double>(middle_of(offsets)) + 1e-6;
  order_.resize(static_cast<size_t>(count));
  std::iota(order_.begin(), order_.end(), 0);
  const int64_t most = candidates_among(count, followed_);
  std::partial_sort(order_.begin(), order_.begin() + most, order_.end(), [&](int32_t a, int32_t b) {
    return offsets[static_cast<size_t>(a)] > offsets[static_cast<size_t>(b)];
  });
  for (int64_t f = 0; f < most; ++f, ++into) {
    const auto own = static_cast<size_t>(order_[static_cast<size_t>(f)]);
    const double share = share_of_deviations(static_cast<double>(offsets[own]) / deviation, count);
    if (share >= static_cast<double>(kLeastShare))
      *into = {present_[own], static_cast<float>(share), offsets[own]};
  }
}

std::vector<size_t> places_in(const Pull& pull, const Channel& channel) {
  std::vector<size_t> places;
  for (const size_t metric : channel.metrics) {
    const auto found = std::find(pull.metrics.begin(), pull.metrics.end(), metric);
    if (found == pull.metrics.end()) return {};
    places.push_back(static_cast<size_t>(found - pull.metrics.begin()));
  }
  return places;
}

Trace empty_trace(const Pull& pull, const Channel& channel, size_t channel_at, int32_t peers, int followed) {
  Trace trace{
      .channel = channel_at, .peers = peers, .window = channel.embedding->window(), .followed = followed};
  trace.windows = std::max<int64_t>(0, pull.seconds - trace.window + 1);
  trace.best.resize(static_cast<size_t>(trace.windows * followed));
  return trace;
}

void score_windows(Trace& trace, const Pull& pull, const Channel& channel, Distance distance,
                   std::span<const int64_t> windows) {
  const std::vector<size_t> places = places_in(pull, channel);
  LONGHAUL_ASSERT(!places.empty(), "channel {}", channel.name);
  std::vector<int32_t> members;
  for (size_t i = 0; i < pull.machines.size(); ++i) {
    if (pull.class_of[i] == trace.peers) members.push_back(static_cast<int32_t>(i));
  }
  std::atomic<int64_t> too_few{0};
  const auto count = static_cast<int64_t>(windows.size());
  const int64_t piece = std::clamp<int64_t>(count / (4 * threads()), 1, 16);
  parallel_items((count + piece - 1) / piece, threads(), [&](const auto& each) {
    WindowScorer scorer(channel, distance, trace.followed, static_cast<int64_t>(members.size()));
    std::vector<const float*> rows(static_cast<size_t>(trace.window) * places.size());
    each([&](int64_t item) {
      for (int64_t i = item * piece; i < std::min(count, (item + 1) * piece); ++i) {
        const int64_t w = windows[static_cast<size_t>(i)];
        for (int64_t t = 0; t < trace.window; ++t) {
          for (size_t q = 0; q < places.size(); ++q)
            rows[static_cast<size_t>(t) * places.size() + q] = pull.row(places[q], w + t);
        }
        if (scorer.score(rows, members, trace.best.data() + w * trace.followed) < kFewestPeers) ++too_few;
      }
    });
  });
  trace.too_few += too_few;
  trace.scored += count;
}

Trace trace_of(const Pull& pull, const Channel& channel, size_t channel_at, int32_t peers, Distance distance,
               int followed) {
  Trace trace = empty_trace(pull, channel, channel_at, peers, followed);
  std::vector<int64_t> all(static_cast<size_t>(trace.windows));
  std::iota(all.begin(), all.end(), 0);
  score_windows(trace, pull, channel, distance, all);
  return trace;
}

}  // namespace longhaul::detect
