// The memory that an optimizer needs only during its step: the sums that ranks add up (optim::Partials), and
// muon's matrices (optim/optimizers/muon.h), for which all sharing ranks have space. It does not include the
// states, which recipe::state_bytes counts. In bytes, as tensors on a CPU have them.
#pragma once

#include "layout/parameters.h"
#include "recipe/sections/optim_options.h"

namespace longhaul::plan {

class UpdateMemory {
 public:
  // wide: bytes of a number in a master weight.
  UpdateMemory(const recipe::OptimOptions& options, int64_t wide) : options_(options), wide_(wide) {}
  // Adds `times` tensors of this kind, of each of which this rank has `share`; `ranks` ranks share one (1: no
  // sharing).
  void add(const layout::ParameterSpec& spec, const layout::Shape& share, double ranks, double times = 1);
  double bytes() const;

 private:
  // Group: matrices whose directions are computed and applied together (optim::Muon::in_groups).
  struct Group {
    double elements = 0, largest = 0;
    void add(double each, double times);
    double at_once() const;
  };
  const recipe::OptimOptions& options_;
  int64_t wide_;
  double factors_ = 0;  // numbers for rows and columns
  double shared_ = 0;   // elements of muon's matrices that several ranks have, in full
  // own_: those of them that this rank computes; whole_: matrices that no other rank has
  Group own_, whole_;
};

}  // namespace longhaul::plan
