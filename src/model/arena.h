// Arena: the memory of the parameters of one layer whose gradients are summed over the same ranks, and how it is cut into these ranks' shares
// (parallel.zero): the optimizer walks the own share from stage 1 on; from stage 2 gradients of layers, from stage 3 values too, have memory for
// the own share alone, and for all only while a pass uses them. What is outside the layers keeps its gradients whole during a step: its uses
// (a tied embedding's) lie at both ends of a pass.
#pragma once

#include <string>
#include <vector>

#include "model/parameter.h"

namespace longhaul::model {

struct Arena {
  std::string name;  // "layers.3 over dp"
  int64_t layer = -1;
  std::vector<Parameter*> parameters{};
  Tensor values{};      // flat, one after the other, each from a multiple of kArenaStep elements on; zeros between them
  Tensor gradients{};   // likewise, of those that train; undefined: none does
  int64_t awaited = 0;  // gradients of this step that are not there yet
  std::vector<int64_t> value_shares{0}, gradient_shares{0};  // elements of each rank that holds a copy, in their order; one: nothing is cut
  Tensor own_values{}, own_gradients{};                      // this rank's; views of those above, or memory of their own
  bool values_come = false, gradients_come = false;          // have memory of their own: those above have theirs for a while only

  layout::AxisSet copies() const { return parameters.front()->gradient_partial_over; }
  layout::AxisSet sharers{}, share_copies{};  // of these, those that have a share each, and those that hold copies of it
  bool cut() const { return value_shares.size() > 1; }
  bool trains() const { return gradients.defined() && gradients.numel() > 0; }
  void take_gradients() const;    // memory for all of them, zeros, where they have none
  void forget_gradients() const;  // zeros, or no memory
  void zero_others() const;       // of gradients that are whole, what is not this rank's share
  void take_values() const;       // memory for all of them, where they have none
  void forget_values() const;     // where they come and go
};
inline constexpr int64_t kArenaStep = 64;

}  // namespace longhaul::model
