// Sharding: where each rank keeps only a share of what several ranks would hold copies of (parallel.zero;
// docs/design/sharding.md), this gathers the shares before they are used and sends gradients to the ranks
// that keep them.
//
//   values     Stages 1 and 2: gathered arena by arena after the update, in the order of the forward pass; a
//              layer waits for its own values. Stage 3: gathered before a layer's forward and backward pass,
//              while the previous layer computes, and freed afterwards; values outside the layers stay from
//              one update to the next. These and the values of the first layer are gathered after the update
//              while the next batch is prepared.
//   gradients  Stage 1, and values outside the layers: once for each step, by Ranks. Stages 2 and 3: after
//              each backward pass of a layer, added to this rank's share; the sum of one layer runs while the
//              layer before it computes. Where shares have copies (parallel.zero_copies), sums between copies
//              run while the shares of the next layer are summed.
//
// Every rank of a group walks the same passes, so the order of calls agrees without communication. Gathers
// and sums use two separate groups of communicators. Not thread-safe.
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
  // All three arguments must outlive this object, which lives with the parameters.
  Sharding(model::ParameterSet& parameters, Group values, Group gradients);

  // This rank has written its share of every value; by_step: but of the frozen ones.
  void share_values(bool by_step);
  void gather_values();  // makes every value whole until the next pass
  void settle_values();  // waits until no gather reads this rank's share

  void before_forward(int64_t layer) override;
  void after_forward(int64_t layer) override;
  bool follows_backward() const override { return gathers_ || reduces_; }
  void before_backward(int64_t layer) override;
  void after_backward(int64_t layer) override;

  // The layers of the last backward pass whose gradients have not been summed yet: weight gradients were
  // postponed, or the gradient of the layer's input was not needed. sum_layers() sums them once they are
  // complete.
  std::vector<int64_t> left_open() { return std::exchange(open_, {}); }
  void sum_layers(const std::vector<int64_t>& layers);
  void end_step();  // waits for the sums in progress

 private:
  struct Held {  // an arena that is cut
    model::Arena* arena = nullptr;
    bool whole = true;  // its values are complete or being gathered
    comm::Work coming;
    bool on_its_way = false;
  };
  struct Sum {
    model::Arena* arena = nullptr;
    Tensor own;
    comm::Work work;
  };
  void start_gather(Held& held);
  void start_gathers(int64_t layer);  // gathers what is neither whole nor being gathered
  void wait_for(Held& held);
  void need(int64_t layer, int64_t next);
  void forget(int64_t layer);
  void start_sums(int64_t layer);
  // ends the sum of one layer between the ranks that share it, and starts the sum between copies of shares
  void finish_sum();
  void finish_copies();  // that sum

  model::ParameterSet& parameters_;
  Group values_, gradients_;
  std::map<int64_t, std::vector<Held>> layers_;  // −1: outside them
  std::vector<int64_t> open_;                    // layers of the current backward pass
  // layers with gradients of a backward pass that no sum has taken yet
  std::set<int64_t> unsummed_;
  bool gathers_ = false, reduces_ = false;  // values, gradients of layers come and go
  // sums in progress: of one layer, and of the layer before it between copies of shares
  std::vector<Sum> sums_, copies_;
};

}  // namespace longhaul::parallel
