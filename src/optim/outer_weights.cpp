#include "optim/outer_weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/memory_purpose.h"
#include "base/parallel.h"

namespace longhaul::optim {
namespace {

constexpr int64_t kStretch = 32768;      // elements; part of the sums' definition
constexpr int64_t kAtOnce = 1 << 18;     // elements that one call sums: 1 MiB in fp32
constexpr int kBehindOtherCalls = -100;  // priority: a worker's own calls go first

}  // namespace

OuterWeights::OuterWeights(const Optimizer& optimizer, const model::ParameterSet& parameters, bool momentum)
    : optimizer_(optimizer), parameters_(parameters) {
  const MemoryPurposeScope scope(MemoryPurpose::kOptimizer);
  ScalarType dtype = at::kFloat;
  for (size_t p = 0; p < parameters.all().size(); ++p) {
    const model::Parameter& parameter = *parameters.all()[p];
    begins_.push_back(parameter.trainable() ? elements_ : -1);
    if (!parameter.trainable()) continue;
    dtype = optimizer.masters()[p].scalar_type();
    for (size_t part = 0; part < parameter.parts.size(); ++part) {
      const layout::Range run = parameter.own_run_of(part);
      const bool counted = parameter.parts[part].first_copy;
      for (int64_t at = 0; at < run.length; at += kStretch) {
        stretches_.push_back({p, run.begin + at, elements_ + run.begin + at, std::min(kStretch, run.length - at), counted});
      }
      if (counted) counted_ += static_cast<double>(run.length);
    }
    elements_ += parameter.own.length;
  }
  const auto options = at::TensorOptions().dtype(dtype);
  anchors_ = at::zeros({elements_}, options);
  sums_ = at::zeros({elements_ + static_cast<int64_t>(kNumbers)}, options);
  if (momentum) momenta_ = at::zeros({elements_}, options);
  anchors_from_masters();
}

template <class Real>
OuterRun<Real> OuterWeights::run_of(const Stretch& stretch) const {
  const auto at = [](const Tensor& of, int64_t begin) { return static_cast<Real*>(of.data_ptr()) + begin; };
  return {.anchor = at(anchors_, stretch.flat),
          .momentum = momenta_.defined() ? at(momenta_, stretch.flat) : nullptr,
          .sums = at(sums_, stretch.flat),
          .weight = at(optimizer_.masters()[stretch.parameter], stretch.begin),
          .count = stretch.length};
}

template <class Body>
void OuterWeights::for_each(const Body& body) const {
  const bool wide = anchors_.scalar_type() == at::kDouble;
  parallel_for(0, static_cast<int64_t>(stretches_.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      if (wide)
        body(i, run_of<double>(stretches_[i]));
      else
        body(i, run_of<float>(stretches_[i]));
    }
  });
}

OuterSums OuterWeights::update(const OuterNumbers& numbers) {
  std::vector<OuterSums> sums(stretches_.size());
  for_each([&](size_t i, const auto& run) { sums[i] = outer_update(run, numbers); });
  OuterSums all;
  for (size_t i = 0; i < sums.size(); ++i) {
    if (stretches_[i].counted) all += sums[i];
  }
  return all;
}

void OuterWeights::take_difference(bool returns) {
  for_each([&](size_t, const auto& run) { outer_difference(run, returns); });
}

double OuterWeights::squared_distance() const {
  std::vector<double> sums(stretches_.size());
  for_each([&](size_t i, const auto& run) { sums[i] = outer_distance(run); });
  double all = 0;
  for (size_t i = 0; i < sums.size(); ++i) all += stretches_[i].counted ? sums[i] : 0;
  return all;
}

void OuterWeights::forget_momentum() {
  if (momenta_.defined()) momenta_.zero_();
}

void OuterWeights::exchange() {
  for_each([](size_t, const auto& run) { std::swap_ranges(run.anchor, run.anchor + run.count, run.weight); });
}

void OuterWeights::masters_from_anchors() {
  for_each([](size_t, const auto& run) { std::copy_n(run.anchor, run.count, run.weight); });
}

void OuterWeights::anchors_from_masters() {
  for_each([](size_t, const auto& run) { std::copy_n(run.weight, run.count, run.anchor); });
}

std::vector<comm::Work> OuterWeights::start_sums(comm::Communicator& workers, const Numbers& numbers) const {
  for (size_t i = 0; i < kNumbers; ++i) sums_[elements_ + static_cast<int64_t>(i)] = numbers[i];
  std::vector<comm::Work> works;
  for (int64_t begin = 0; begin < sums_.numel(); begin += kAtOnce) {
    const Tensor piece = sums_.narrow(0, begin, std::min(kAtOnce, sums_.numel() - begin));
    works.push_back(workers.all_reduce(piece, comm::Reduction::kSum, {.name = "outer gradients", .priority = kBehindOtherCalls}));
  }
  return works;
}

OuterWeights::Numbers OuterWeights::numbers() const {
  Numbers result{};
  for (size_t i = 0; i < kNumbers; ++i) result[i] = sums_[elements_ + static_cast<int64_t>(i)].item<double>();
  return result;
}

void OuterWeights::set_numbers(const Numbers& numbers) {
  for (size_t i = 0; i < kNumbers; ++i) sums_[elements_ + static_cast<int64_t>(i)] = numbers[i];
}

std::vector<StateTensor> OuterWeights::state() const {
  std::vector<StateTensor> all;
  const auto add = [&](const char* kind, const Tensor& flat) {
    if (!flat.defined()) return;
    for (size_t p = 0; p < parameters_.all().size(); ++p) {
      if (begins_[p] < 0) continue;
      const model::Parameter& parameter = *parameters_.all()[p];
      const Tensor share = flat.narrow(0, begins_[p], parameter.own.length);
      for (size_t part = 0; part < parameter.parts.size(); ++part) {
        all.push_back(state_of_part(parameter, part, kind, parameter.own_part_of(share, part)));
      }
    }
  };
  add("anchor", anchors_);
  add("momentum", momenta_);
  add("in_flight", sums_);
  return all;
}

}  // namespace longhaul::optim
