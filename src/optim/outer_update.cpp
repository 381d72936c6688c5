#include "optim/outer_update.h"

#include <algorithm>
#include <cmath>

namespace longhaul::optim {

OuterSums& OuterSums::operator+=(const OuterSums& other) {
  gradient += other.gradient;
  momentum += other.momentum;
  movement += other.movement;
  clipped += other.clipped;
  return *this;
}

namespace {

// What the worker goes on with, of an element whose anchor comes to `after` by -`movement`.
template <class Real>
Real merged(const OuterRun<Real>& run, int64_t i, OuterMerge merge, Real mix, Real movement, Real after) {
  switch (merge) {
    case OuterMerge::kReplaced:
      return after;
    case OuterMerge::kCorrected:
      return run.weight[i] + (run.sent[i] - movement);
    case OuterMerge::kMixed:
      return after + mix * (run.weight[i] - after);
  }
  return after;
}

}  // namespace

template <class Real>
OuterSums outer_update(const OuterRun<Real>& run, const OuterNumbers& numbers) {
  const Real scale = static_cast<Real>(numbers.scale), beta = static_cast<Real>(numbers.momentum), step = static_cast<Real>(numbers.step);
  const Real most = static_cast<Real>(numbers.clip), mix = static_cast<Real>(numbers.mix);
  OuterSums sums;
  for (int64_t i = 0; i < run.count; ++i) {
    const Real before = run.anchor[i], gradient = scale * run.sums[i];
    Real momentum = run.momentum != nullptr ? beta * run.momentum[i] + gradient : gradient;
    if (numbers.clip > 0 && std::abs(momentum) > most) {
      momentum = std::copysign(most, momentum);
      sums.clipped += 1;
    }
    if (run.momentum != nullptr) run.momentum[i] = momentum;
    const Real movement = step * (numbers.nesterov ? gradient + beta * momentum : momentum);
    if (numbers.leaves_difference) run.sums[i] = before - run.weight[i];
    const Real after = before - movement;
    run.weight[i] = merged(run, i, numbers.merge, mix, movement, after);
    run.anchor[i] = after;
    sums.gradient += static_cast<double>(gradient) * static_cast<double>(gradient);
    sums.momentum += static_cast<double>(momentum) * static_cast<double>(momentum);
    sums.movement += static_cast<double>(movement) * static_cast<double>(movement);
  }
  return sums;
}

template <class Real>
void outer_difference(const OuterRun<Real>& run, bool returns) {
  for (int64_t i = 0; i < run.count; ++i) {
    run.sums[i] = run.anchor[i] - run.weight[i];
    if (run.sent != nullptr) run.sent[i] = run.sums[i];
    if (returns) run.weight[i] = run.anchor[i];
  }
}

template <class Real>
double outer_distance(const OuterRun<Real>& run) {
  double sum = 0;
  for (int64_t i = 0; i < run.count; ++i) {
    const double difference = static_cast<double>(run.anchor[i]) - static_cast<double>(run.weight[i]);
    sum += difference * difference;
  }
  return sum;
}

template OuterSums outer_update(const OuterRun<float>&, const OuterNumbers&);
template OuterSums outer_update(const OuterRun<double>&, const OuterNumbers&);
template void outer_difference(const OuterRun<float>&, bool);
template void outer_difference(const OuterRun<double>&, bool);
template double outer_distance(const OuterRun<float>&);
template double outer_distance(const OuterRun<double>&);

}  // namespace longhaul::optim
