// Muon (Keller Jordan; arXiv 2502.16982; docs/sources/optimizers.md §5), for the matrices of layers only;
// the other tensors have AdamW (recipe/sections/optim_groups.h):
//   b ← μ b + (1 − μ) g;  O = NewtonSchulz(nesterov ? (1 − μ) g + μ b : b);  w ← w (1 − lr λ) − lr s O
// with s = 0.2 sqrt(max(n, m)), which makes updates as large as AdamW's, or the original sqrt(max(1, n/m)).
// Each element has one state.
//
// O is computed from the whole logical matrix (query, key, and every expert separately). When a matrix is
// cut, by tensor parallelism or ZeRO, one of the ranks that share it gathers the whole matrix, computes O
// and returns it: two reductions in a step for each set of axes, whatever the number of matrices, in which
// every rank writes its own share and zeros elsewhere, so nothing is rounded. Matrices are assigned to
// ranks by their cost. During a step each of these ranks needs memory for all matrices that they share:
// twice the master's bytes of the model slice that they divide. (The 5 products X Xᵀ could be summed over
// ranks instead, at the cost of 5 more dependent reductions.) In bf16 runs products are bf16, sums and X
// fp32 (kernels/newton_schulz).
#pragma once

#include <functional>
#include <vector>

#include "optim/optimizer.h"
#include "optim/optimizers/narrow_state.h"

namespace longhaul::optim {

class Muon final : public Optimizer {
 public:
  Muon(const recipe::OptimOptions& options, Members members);
  std::vector<StateTensor> state() override;

 private:
  struct Matrix {
    Shard shard;
    ShardState momentum;
    bool cut = false, mine = true;          // mine: this rank computes O
    Partials::Place direction, orthogonal;  // the whole matrix, if it is cut
  };
  void deal_out();
  Tensor own_box(const Matrix& matrix, const Partials& partials, const Partials::Place& place) const;
  Tensor direction(Matrix& matrix, const StepSettings& settings) const;
  void follow(const StepSettings& settings);
  void orthogonalise();
  void in_groups(const std::function<bool(const Matrix&)>& which, const std::function<Tensor(Matrix&)>& from,
                 const std::function<void(Matrix&, const Tensor&)>& to);
  void move(Matrix& matrix, const Tensor& orthogonal, const StepSettings& settings) const;
  void update(const StepSettings& settings);

  recipe::OptimOptions options_;
  double momentum_ = 0;
  std::vector<Matrix> matrices_;
  Partials directions_, orthogonals_;
};

}  // namespace longhaul::optim
