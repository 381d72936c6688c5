// Arena: the memory of those parameters of one layer whose gradients are summed over the same ranks, and how
// it is cut into the shares of these ranks (parallel.zero). From stage 1 on the optimizer updates this rank's
// own share only. From stage 2 on the gradients of layers, and in stage 3 the values too, have permanent
// memory for the own share only, and memory for the whole only while a pass uses them. Parameters outside the
// layers keep whole gradients during a step, because their uses (of a tied embedding) lie at both ends of a
// pass.
#pragma once

#include <string>
#include <vector>

#include "model/parameter.h"

namespace longhaul::model {

struct Arena {
  std::string name;  // "layers.3 over dp"
  int64_t layer = -1;
  std::vector<Parameter*> parameters{};
  // flat: all values one after the other, each starting at a multiple of kArenaStep elements, with zeros in
  // between
  Tensor values{};
  Tensor gradients{};   // the same for the parameters that train; undefined: none does
  int64_t awaited = 0;  // gradients of this step that are still missing
  std::vector<int64_t> value_shares{0},
      // the elements of each rank that holds a copy, in the order of ranks; one entry: nothing is cut
      gradient_shares{0};
  // this rank's share: views of the tensors above, or memory of their own
  Tensor own_values{}, own_gradients{};
  bool values_come = false,
       // true: the share has memory of its own, and the tensors above have memory only while they are used
      gradients_come = false;

  layout::AxisSet copies() const { return parameters.front()->gradient_partial_over; }
  // among these, the ranks that each have a share, and the ranks that hold copies of one share
  layout::AxisSet sharers{}, share_copies{};
  bool cut() const { return value_shares.size() > 1; }
  bool trains() const { return gradients.defined() && gradients.numel() > 0; }
  bool frozen() const;            // no step changes a value of it
  void take_gradients() const;    // gives the whole gradients memory, filled with zeros, where they have none
  void forget_gradients() const;  // zeros, or no memory
  void zero_others() const;       // zeroes the part of whole gradients that is not this rank's share
  void take_values() const;       // gives the whole values memory where they have none
  void forget_values() const;     // where they come and go
};
inline constexpr int64_t kArenaStep = 64;

}  // namespace longhaul::model
