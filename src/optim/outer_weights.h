// OuterWeights: what an outer loop keeps beside the masters of one rank: of every element that trains the anchor, the outer momentum, and the
// sums over workers that are made or on their way. The sums are one run of memory, with a few further numbers behind them that go the same way, in
// pieces so small that a worker's own calls go between them. Shares and rectangles are those of the masters (ZeRO, tensor, pipeline ranks): a rank
// meets those who hold the same of other workers, and nobody else. On the CPU, threads share the work; sums are added in one order. Not thread-safe.
#pragma once

#include <array>
#include <vector>

#include "comm/communicator.h"
#include "optim/optimizer.h"
#include "optim/outer_update.h"

namespace longhaul::optim {

class OuterWeights {
 public:
  static constexpr size_t kNumbers = 2;  // that go with the sums
  using Numbers = std::array<double, kNumbers>;

  OuterWeights(const Optimizer& optimizer, const model::ParameterSet& parameters, bool momentum);  // anchors are the masters

  // The steps of outer_update.h on everything; squares and counts are of what this rank counts first.
  OuterSums update(const OuterNumbers& numbers);
  void take_difference(bool returns);
  double squared_distance() const;
  void forget_momentum();
  void exchange();  // masters and anchors
  void masters_from_anchors();
  void anchors_from_masters();

  std::vector<comm::Work> start_sums(comm::Communicator& workers, const Numbers& numbers) const;
  Numbers numbers() const;  // of the sums that have come
  void set_numbers(const Numbers& numbers);
  // "anchor", "momentum" and "in_flight" of every logical tensor that trains.
  std::vector<StateTensor> state() const;
  double counted() const { return counted_; }  // elements

 private:
  struct Stretch {
    size_t parameter = 0;
    int64_t begin = 0;  // in its own share
    int64_t flat = 0;   // in anchors_, momenta_, sums_
    int64_t length = 0;
    bool counted = false;
  };
  template <class Real>
  OuterRun<Real> run_of(const Stretch& stretch) const;
  template <class Body>
  void for_each(const Body& body) const;  // body(index of a stretch, its run), on all threads

  const Optimizer& optimizer_;
  const model::ParameterSet& parameters_;
  std::vector<int64_t> begins_;  // of each parameter's share; -1: it does not train
  std::vector<Stretch> stretches_;
  Tensor anchors_, momenta_, sums_;  // flat; momenta_ undefined: none
  int64_t elements_ = 0;
  double counted_ = 0;
};

}  // namespace longhaul::optim
