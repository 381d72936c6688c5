#include "optim/outer/outer_weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/memory/memory_purpose.h"
#include "base/threads/parallel.h"

namespace longhaul::optim {
namespace {

constexpr int64_t kStretch = 32768;      // elements; part of the sums' definition
constexpr int64_t kAtOnce = 1 << 18;     // elements that one call sums: 1 MiB in fp32
constexpr int kBehindOtherCalls = -100;  // priority: a worker's own calls go first

template <class Real>
const kernels::OuterLoops<Real>& loops_of(const kernels::OuterRun<Real>&) {
  return kernels::outer_loops<Real>();
}

size_t fragment_of(const layout::ParameterSpec& spec, size_t fragments) {
  if (spec.layer >= 0) return static_cast<size_t>(spec.layer) % fragments;
  const bool first =
      spec.tensor.role == layout::Role::kEmbedding || spec.tensor.role == layout::Role::kPosition;
  return first ? 0 : fragments - 1;
}

}  // namespace

OuterWeights::OuterWeights(const Optimizer& optimizer, const model::ParameterSet& parameters,
                           const OuterKept& kept)
    : optimizer_(optimizer),
      parameters_(parameters),
      begins_(parameters.all().size(), -1),
      numbers_(kNumbers) {
  const MemoryPurposeScope scope(MemoryPurpose::kOptimizer);
  ScalarType dtype = at::kFloat;
  const auto fragments = static_cast<size_t>(kept.fragments);
  if (kept.by_tensor) {
    LONGHAUL_ASSERT(fragments == 1, "numbers of each tensor beside fragments");
    for (const auto& parameter : parameters.all())
      numbers_ += parameter->trainable() ? static_cast<int64_t>(parameter->parts.size()) : 0;
  }
  for (size_t f = 0; f < fragments; ++f) {
    Fragment fragment{.first = stretches_.size(), .begin = elements_};
    for (size_t p = 0; p < parameters.all().size(); ++p) {
      const model::Parameter& parameter = *parameters.all()[p];
      if (!parameter.trainable() || fragment_of(parameter.parts.front().spec, fragments) != f) continue;
      dtype = optimizer.masters()[p].scalar_type();
      lay_out(parameter, p);
    }
    fragment.last = stretches_.size();
    fragment.elements = elements_ - fragment.begin;
    elements_ += numbers_;
    fragments_.push_back(fragment);
  }
  const auto zeros = [&] { return at::zeros({elements_}, at::TensorOptions().dtype(dtype)); };
  anchors_ = zeros();
  sums_ = zeros();
  if (kept.momentum) momenta_ = zeros();
  if (kept.sent) sent_ = zeros();
  if (kept.narrow) wire_ = at::zeros({elements_}, at::kBFloat16);
  anchors_from_masters();
}

void OuterWeights::lay_out(const model::Parameter& parameter, size_t p) {
  begins_[p] = elements_;
  for (size_t part = 0; part < parameter.parts.size(); ++part) {
    const layout::Range run = parameter.own_run_of(part);
    const bool counted = parameter.parts[part].first_copy;
    for (int64_t at = 0; at < run.length; at += kStretch) {
      stretches_.push_back({p, movements_.size(), run.begin + at, elements_ + run.begin + at,
                            std::min(kStretch, run.length - at), counted});
    }
    if (counted) counted_ += static_cast<double>(run.length);
    movements_.push_back(0);
  }
  elements_ += parameter.own.length;
}

OuterWeights::Fragment OuterWeights::range_of(int64_t fragment) const {
  if (fragment != kAll) return fragments_[static_cast<size_t>(fragment)];
  return {.first = 0, .last = stretches_.size(), .begin = 0, .elements = elements_ - numbers_};
}

template <class Real>
kernels::OuterRun<Real> OuterWeights::run_of(const Stretch& stretch) const {
  const auto at = [](const Tensor& of, int64_t begin) { return static_cast<Real*>(of.data_ptr()) + begin; };
  return {.anchor = at(anchors_, stretch.flat),
          .momentum = momenta_.defined() ? at(momenta_, stretch.flat) : nullptr,
          .sums = at(sums_, stretch.flat),
          .sent = sent_.defined() ? at(sent_, stretch.flat) : nullptr,
          .weight = at(optimizer_.masters()[stretch.parameter], stretch.begin),
          .count = stretch.length};
}

template <class Body>
void OuterWeights::for_each(const Body& body, int64_t fragment) const {
  const bool wide = anchors_.scalar_type() == at::kDouble;
  const Fragment range = range_of(fragment);
  parallel_for(static_cast<int64_t>(range.first), static_cast<int64_t>(range.last), 1,
               [&](int64_t begin, int64_t end) {
                 for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
                   if (wide)
                     body(i, run_of<double>(stretches_[i]));
                   else
                     body(i, run_of<float>(stretches_[i]));
                 }
               });
}

kernels::OuterSums OuterWeights::update(const kernels::OuterNumbers& numbers, int64_t fragment,
                                        std::span<const double> gaps) {
  std::vector<kernels::OuterSums> sums(stretches_.size());  // zeros where another fragment's are
  const auto of = [&](size_t tensor) {
    kernels::OuterNumbers own = numbers;
    own.scale /= gaps[tensor];
    return own;
  };
  for_each(
      [&](size_t i, const auto& run) {
        sums[i] = loops_of(run).update(run, gaps.empty() ? numbers : of(stretches_[i].tensor));
      },
      fragment);
  kernels::OuterSums all;
  std::fill(movements_.begin(), movements_.end(), 0);
  for (size_t i = 0; i < sums.size(); ++i) {
    if (stretches_[i].counted) all += sums[i];
    movements_[stretches_[i].tensor] += sums[i].movement;
  }
  return all;
}

void OuterWeights::take_difference(bool returns, int64_t fragment) {
  for_each([&](size_t, const auto& run) { loops_of(run).difference(run, returns); }, fragment);
  std::fill(movements_.begin(), movements_.end(), 0);
}

OuterWeights::Distances OuterWeights::squared_distances() const {
  std::vector<double> sums(stretches_.size());
  for_each([&](size_t i, const auto& run) { sums[i] = loops_of(run).distance(run); });
  Distances all{.of_tensors = std::vector<double>(tensors())};
  for (size_t i = 0; i < sums.size(); ++i) {
    if (stretches_[i].counted) all.counted += sums[i];
    all.of_tensors[stretches_[i].tensor] += sums[i];
  }
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

std::vector<comm::Work> OuterWeights::start_sums(comm::Communicator& workers, const Numbers& numbers,
                                                 int64_t fragment) {
  const Fragment range = range_of(fragment);
  const int64_t end = range.begin + range.elements + numbers_;
  std::vector<comm::Work> works;
  const auto sum = [&](const Tensor& piece) {
    works.push_back(workers.all_reduce(piece, comm::Reduction::kSum,
                                       {.name = "outer gradients", .priority = kBehindOtherCalls}));
  };
  if (wire_.defined()) wire_.slice(0, range.begin, end).copy_(sums_.slice(0, range.begin, end));
  for (const Fragment& each : fragments_) {
    if (each.begin < range.begin || each.begin >= end) continue;
    const Tensor told = sums_.narrow(0, each.begin + each.elements, numbers_);
    told.copy_(at::tensor(numbers, at::kDouble));
    if (wire_.defined()) sum(told);  // in fp32 all the same: gaps are made of them
  }
  const Tensor& sent = wire_.defined() ? wire_ : sums_;
  for (int64_t begin = range.begin; begin < end; begin += kAtOnce)
    sum(sent.narrow(0, begin, std::min(kAtOnce, end - begin)));
  return works;
}

void OuterWeights::take_sums(int64_t fragment) {
  if (!wire_.defined()) return;
  const Fragment range = range_of(fragment);
  for (const Fragment& each : fragments_) {
    if (each.begin < range.begin || each.begin >= range.begin + range.elements) continue;
    sums_.narrow(0, each.begin, each.elements).copy_(wire_.narrow(0, each.begin, each.elements));
  }
}

OuterWeights::Numbers OuterWeights::numbers(int64_t fragment) const {
  const Fragment range = range_of(fragment);
  const Tensor told = sums_.narrow(0, range.begin + range.elements, numbers_).to(at::kDouble);
  return {told.const_data_ptr<double>(), told.const_data_ptr<double>() + numbers_};
}

void OuterWeights::set_numbers(const Numbers& numbers, int64_t fragment) {
  const Fragment range = range_of(fragment);
  for (size_t i = 0; i < kNumbers; ++i)
    sums_[range.begin + range.elements + static_cast<int64_t>(i)] = numbers[i];
}

Tensor OuterWeights::number_of_tensor(size_t tensor) const {
  const Fragment& all = fragments_.front();
  return sums_.narrow(0, all.begin + all.elements + static_cast<int64_t>(kNumbers + tensor), 1);
}

std::vector<StateTensor> OuterWeights::state() const {
  std::vector<StateTensor> all;
  const auto add = [&](std::string_view kind, const Tensor& flat) {
    if (!flat.defined()) return;
    for (size_t p = 0; p < parameters_.all().size(); ++p) {
      if (begins_[p] < 0) continue;
      const model::Parameter& parameter = *parameters_.all()[p];
      const Tensor share = flat.narrow(0, begins_[p], parameter.own.length);
      for (size_t part = 0; part < parameter.parts.size(); ++part) {
        all.push_back(state_of_part(parameter, part, std::string(kind), parameter.own_part_of(share, part)));
      }
    }
  };
  add("anchor", anchors_);
  add("momentum", momenta_);
  add("in_flight", sums_);
  add(kOwn, sent_);
  return all;
}

}  // namespace longhaul::optim
