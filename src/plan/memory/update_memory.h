// What an optimizer takes of memory while its step goes on, and gives back behind it: the sums that ranks add up (optim::Partials), and muon's matrices (optim/optimizers/muon.h),
// all of which ranks that share some have room for. Of this, not of the states, which recipe::state_bytes counts. Bytes, as tensors on a CPU have them.
#pragma once

#include "layout/parameters.h"
#include "recipe/sections/optim_options.h"

namespace longhaul::plan {

class UpdateMemory {
 public:
  // wide: bytes of a number in a master.
  UpdateMemory(const recipe::OptimOptions& options, int64_t wide) : options_(options), wide_(wide) {}
  // `times` tensors of this kind, of each of which this rank has `share`; `ranks` share one (1: nobody else).
  void add(const layout::ParameterSpec& spec, const layout::Shape& share, double ranks, double times = 1);
  double bytes() const;

 private:
  // Matrices whose directions are made, worked on and taken together (optim::Muon::in_groups).
  struct Group {
    double elements = 0, largest = 0;
    void add(double each, double times);
    double at_once() const;
  };
  const recipe::OptimOptions& options_;
  int64_t wide_;
  double factors_ = 0;  // numbers of rows and columns
  double shared_ = 0;   // elements of muon's matrices that several ranks have, whole
  Group own_, whole_;   // of them those that this rank works on; those that nobody else has
};

}  // namespace longhaul::plan
