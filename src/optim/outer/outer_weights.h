// OuterWeights: what an outer loop keeps beside the masters of one rank: of every element that trains the anchor, the outer momentum, the
// sums over workers that are made or on their way, and what this worker gave to them. The sums are one run of memory, with a few further numbers behind
// them that go the same way, in pieces so small that a worker's own calls go between them. They may be exchanged in fragments, one after the other:
// layer l is of fragment l mod their number, the embedding of the first, what else is outside the layers of the last, so that all layouts of a
// worker have the same. Shares and rectangles are those of the masters (ZeRO, tensor, pipeline ranks): a rank
// meets those who hold the same of other workers, and nobody else. On the CPU, threads share the work; sums are added in one order. Not thread-safe.
#pragma once

#include <span>
#include <vector>

#include "comm/communicator.h"
#include "kernels/updates/outer.h"
#include "optim/optimizer.h"

namespace longhaul::optim {

struct OuterKept {
  bool momentum = false, sent = false;
  bool narrow = false;  // sums travel in bf16
  int64_t fragments = 1;
  bool by_tensor = false;  // a number of each tensor goes with the sums
};

class OuterWeights {
 public:
  static constexpr int64_t kAll = -1;                     // fragments
  static constexpr std::string_view kOwn = "outer_sent";  // the state that each worker has of its own
  static constexpr size_t kNumbers = 2;                   // that go with the sums; behind them, if by_tensor, one a tensor
  using Numbers = std::vector<double>;

  OuterWeights(const Optimizer& optimizer, const model::ParameterSet& parameters, const OuterKept& kept);  // anchors are the masters

  // The steps of kernels/updates/outer.h on everything; squares and counts are of what this rank counts first. gaps: by tensor, what the scale is divided by;
  // empty: nothing.
  kernels::OuterSums update(const kernels::OuterNumbers& numbers, int64_t fragment = kAll, std::span<const double> gaps = {});
  void take_difference(bool returns, int64_t fragment = kAll);
  struct Distances {
    double counted = 0;              // of what this rank counts first
    std::vector<double> of_tensors;  // of all that this rank has of each, counted elsewhere or not
  };
  Distances squared_distances() const;                                         // of weights from anchors
  const std::vector<double>& squared_movements() const { return movements_; }  // anchors', since differences were taken
  size_t tensors() const { return movements_.size(); }
  void forget_momentum();
  void exchange();  // masters and anchors
  void masters_from_anchors();
  void anchors_from_masters();

  std::vector<comm::Work> start_sums(comm::Communicator& workers, const Numbers& numbers, int64_t fragment = kAll);
  void take_sums(int64_t fragment = kAll);                            // behind the end of that work
  Numbers numbers(int64_t fragment = kAll) const;                     // of the sums that have come
  void set_numbers(const Numbers& numbers, int64_t fragment = kAll);  // the first kNumbers
  Tensor number_of_tensor(size_t tensor) const;                       // a view [1] of the one that goes with the sums
  // "anchor", "momentum", "in_flight" and kOwn of every logical tensor that trains.
  std::vector<StateTensor> state() const;
  double counted() const { return counted_; }  // elements

 private:
  struct Stretch {
    size_t parameter = 0, tensor = 0;
    int64_t begin = 0;  // in its own share
    int64_t flat = 0;   // in the flat tensors
    int64_t length = 0;
    bool counted = false;
  };
  struct Fragment {
    size_t first = 0, last = 0;       // of stretches_
    int64_t begin = 0, elements = 0;  // in sums_; its numbers lie behind
  };
  Fragment range_of(int64_t fragment) const;
  template <class Real>
  kernels::OuterRun<Real> run_of(const Stretch& stretch) const;
  template <class Body>
  void for_each(const Body& body, int64_t fragment = kAll) const;  // body(index of a stretch, its run), on all threads
  void lay_out(const model::Parameter& parameter, size_t p);

  const Optimizer& optimizer_;
  const model::ParameterSet& parameters_;
  std::vector<int64_t> begins_;  // of each parameter's share; -1: it does not train
  std::vector<Stretch> stretches_;
  std::vector<Fragment> fragments_;
  Tensor anchors_, momenta_, sums_, sent_, wire_;  // flat, fragment after fragment; momenta_, sent_, wire_ undefined: none
  int64_t elements_ = 0;                           // and the fragments' numbers
  int64_t numbers_ = 0;                            // of a fragment
  std::vector<double> movements_;
  double counted_ = 0;
};

}  // namespace longhaul::optim
