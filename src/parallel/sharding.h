// Sharding: where ranks that hold copies each keep a share (parallel.zero; docs/design/sharding.md), it brings the shares together before they are
// used, and gradients to those who keep them.
//
//   values     stage 1, 2: gathered arena by arena behind the update, in the order of the forward pass; a layer waits for its own
//              stage 3: gathered before a layer's forward and backward pass, the next layer's meanwhile, and freed after; outside the
//              layers from one update to the next. These and the first layer's start behind the update, while the next batch is made ready
//   gradients  stage 1, and what is outside the layers: once a step, by Ranks
//              stage 2, 3: a layer's after each backward pass of it, added to this rank's share; the sum of a layer goes on while the layer
//              before it works. Where shares have copies (parallel.zero_copies) their sums go on while the next layer's shares are summed
//
// Every rank of a group walks the same passes, so the order of calls is the same without being agreed on. Gathers and sums go by two groups
// of communicators. Not thread-safe.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "model/arena.h"

namespace longhaul::parallel {

class Sharding final : public model::ParameterWatch {
 public:
  using Group = std::function<comm::Communicator&(layout::AxisSet over)>;
  // All three must outlive it; it lives with the parameters.
  Sharding(model::ParameterSet& parameters, Group values, Group gradients);

  void share_values();   // this rank's share of every value was written
  void gather_values();  // every value is whole when it returns, until the next pass
  void settle_values();  // no gather reads this rank's share any more

  void before_forward(int64_t layer) override;
  void after_forward(int64_t layer) override;
  bool follows_backward() const override { return gathers_ || reduces_; }
  void before_backward(int64_t layer) override;
  void after_backward(int64_t layer) override;

  // Of the backward pass that just ended, the layers whose gradients have not left: products of weights were postponed, or nobody wanted the
  // gradient of their input. sum_layers() when these are there.
  std::vector<int64_t> left_open() { return std::exchange(open_, {}); }
  void sum_layers(const std::vector<int64_t>& layers);
  void end_step();  // sums that go on have ended

 private:
  struct Held {  // an arena that is cut
    model::Arena* arena = nullptr;
    bool whole = true;  // its values are there, or come
    comm::Work coming;
    bool on_its_way = false;
  };
  struct Sum {
    model::Arena* arena = nullptr;
    Tensor own;
    comm::Work work;
  };
  void start_gather(Held& held);
  void start_gathers(int64_t layer);  // of what is not whole, nor coming
  void wait_for(Held& held);
  void need(int64_t layer, int64_t next);
  void forget(int64_t layer);
  void start_sums(int64_t layer);
  void finish_sum();     // of one layer, between those that share; where shares have copies the sum between these begins
  void finish_copies();  // that sum

  model::ParameterSet& parameters_;
  Group values_, gradients_;
  std::map<int64_t, std::vector<Held>> layers_;  // −1: outside them
  std::vector<int64_t> open_;                    // layers of the backward pass that goes on
  std::set<int64_t> unsummed_;                   // layers with gradients of a backward pass that no sum has taken yet
  bool gathers_ = false, reduces_ = false;       // values, gradients of layers come and go
  std::vector<Sum> sums_, copies_;               // that go on: of one layer; of the one before it, between copies of shares
};

}  // namespace longhaul::parallel
