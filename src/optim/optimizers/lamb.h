// LAMB (arXiv 1904.00962; docs/sources/optimizers.md §3) as in NVIDIA's apex: AdamW's direction, scaled for
// every tensor to the length of its weights.
//   m ← β1 m + β3 g;  v ← β2 v + (1 − β2) g²;  u = m̂ / (√v̂ + ε) + λ w;  w ← w − lr · ‖w‖/‖u‖ · u
// β3 is 1 − β1, or 1 without optim.lamb_grad_averaging. The ratio is 1 when a norm is 0, and for tensors
// without weight decay (norms, biases) unless optim.nvlamb is set; optim.lamb_min_ratio and lamb_max_ratio
// bound the others. optim.lamb_decay = "l2" adds λ w to the gradient instead. Each element has two states. A
// step makes two passes over memory on a CPU (kernels/updates), with one reduction between them: the squares
// of the norms, two numbers for each tensor. Norms are those of logical tensors however they are cut: every
// expert has a ratio of its own.
#pragma once

#include "kernels/optimizer_loops/loops.h"
#include "optim/optimizers/elementwise.h"

namespace longhaul::optim {

class Lamb final : public Elementwise {
 public:
  Lamb(const recipe::OptimOptions& options, Members members);
  std::vector<OfTensor> measured() const override;  // trust ratios

 private:
  kernels::LambScalars scalars(const StepSettings& settings, const Piece& piece) const;
  double ratio(const Piece& piece) const;
  size_t index_of(const Piece& piece) const { return static_cast<size_t>(&piece - pieces().data()); }
  const Partials::Place& place_of(const Piece& piece) const { return places_[index_of(piece)]; }
  Tensor update_of(const Views& views, const kernels::LambScalars& scalars) const;
  void moments(const StepSettings& settings);
  void update(const StepSettings& settings);

  std::vector<Partials::Place> places_;  // one for each piece
  std::vector<bool> first_;              // likewise: whether this rank counts the tensor
  Partials norms_;
};

}  // namespace longhaul::optim
