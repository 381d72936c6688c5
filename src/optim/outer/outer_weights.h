// OuterWeights: what an outer loop keeps in addition to the masters of one rank. For every element that
// trains: the anchor, the outer momentum, the sums over workers that are finished or being exchanged, and
// what this worker contributed to them.
//
// The sums are one contiguous run of memory, followed by a few more numbers that are reduced in the same
// way; they are sent in pieces so small that the worker's own calls can run in between. The sums may be
// exchanged in fragments, one after the other: layer l is in fragment l mod the number of fragments, the
// embedding in the first, all other tensors outside the layers in the last, so that all layouts of a worker
// have the same fragments. Shares and rectangles are those of the masters (ZeRO, tensor-parallel and
// pipeline ranks): a rank exchanges only with the ranks of other workers that hold the same share. On the
// CPU, threads share the work; sums are added in one fixed order. Not thread-safe.
#pragma once

#include <span>
#include <vector>

#include "comm/communicator.h"
#include "kernels/optimizer_loops/outer.h"
#include "optim/optimizer.h"

namespace longhaul::optim {

struct OuterKept {
  bool momentum = false, sent = false;
  bool narrow = false;  // sums travel in bf16
  int64_t fragments = 1;
  bool by_tensor = false;  // one number for each tensor is sent with the sums
};

class OuterWeights {
 public:
  static constexpr int64_t kAll = -1;                     // fragments
  static constexpr std::string_view kOwn = "outer_sent";  // the state that each worker has of its own
  // The numbers that are sent with the sums; with by_tensor, one for each tensor follows.
  static constexpr size_t kNumbers = 2;
  using Numbers = std::vector<double>;

  // anchors are the masters
  OuterWeights(const Optimizer& optimizer, const model::ParameterSet& parameters, const OuterKept& kept);

  // Applies the steps of kernels/optimizer_loops/outer.h to everything; squares and counts cover the elements
  // that this rank counts first. gaps: for each tensor, the divisor of the scale; empty: none.
  kernels::OuterSums update(const kernels::OuterNumbers& numbers, int64_t fragment = kAll,
                            std::span<const double> gaps = {});
  void take_difference(bool returns, int64_t fragment = kAll);
  struct Distances {
    double counted = 0;  // of the elements that this rank counts first
    // For each tensor: over everything that this rank has of it, counted elsewhere or not.
    std::vector<double> of_tensors;
  };
  // The squared distances of the weights from the anchors.
  Distances squared_distances() const;
  // The squared movements of the anchors, since differences were taken.
  const std::vector<double>& squared_movements() const { return movements_; }
  size_t tensors() const { return movements_.size(); }
  void forget_momentum();
  void exchange();  // swaps masters and anchors
  void masters_from_anchors();
  void anchors_from_masters();

  std::vector<comm::Work> start_sums(comm::Communicator& workers, const Numbers& numbers,
                                     int64_t fragment = kAll);
  void take_sums(int64_t fragment = kAll);                            // after that work has ended
  Numbers numbers(int64_t fragment = kAll) const;                     // of the sums that have arrived
  void set_numbers(const Numbers& numbers, int64_t fragment = kAll);  // the first kNumbers
  // A view [1] of the tensor's number that is sent with the sums.
  Tensor number_of_tensor(size_t tensor) const;
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
    int64_t begin = 0, elements = 0;  // in sums_; its numbers follow
  };
  Fragment range_of(int64_t fragment) const;
  template <class Real>
  kernels::OuterRun<Real> run_of(const Stretch& stretch) const;
  template <class Body>
  // body(index of a stretch, its run), on all threads
  void for_each(const Body& body, int64_t fragment = kAll) const;
  void lay_out(const model::Parameter& parameter, size_t p);

  const Optimizer& optimizer_;
  const model::ParameterSet& parameters_;
  std::vector<int64_t> begins_;  // of each parameter's share; -1: it does not train
  std::vector<Stretch> stretches_;
  std::vector<Fragment> fragments_;
  // flat, fragment after fragment; momenta_, sent_, wire_ undefined: none
  Tensor anchors_, momenta_, sums_, sent_, wire_;
  int64_t elements_ = 0;  // and the fragments' numbers
  int64_t numbers_ = 0;   // of a fragment
  std::vector<double> movements_;
  double counted_ = 0;
};

}  // namespace longhaul::optim
