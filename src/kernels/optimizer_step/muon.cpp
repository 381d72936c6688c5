// muon: momenta, all directions made orthogonal together, weights.
#include <algorithm>
#include <cmath>

#include "kernels/newton_schulz/op.h"
#include "kernels/optimizer_step/problem.h"

namespace longhaul::kernels {

template <class Real>
void step_of_muon(const StepProblem<Real>& problem) {
  const recipe::OptimOptions& options = problem.options;
  const double mu = problem.momentum();
  std::vector<Tensor> directions;
  const auto view = [](Real* memory, const StepMatrix<Real>& matrix) {
    return at::from_blob(memory, {matrix.rows, matrix.columns},
                         at::TensorOptions().dtype(at::CppTypeToScalarType<Real>::value));
  };
  for (const StepMatrix<Real>& matrix : problem.matrices) {
    const Tensor g = view(matrix.gradient, matrix) * (1 - mu);
    const Tensor momentum = view(matrix.first, matrix).mul_(mu).add_(g);
    directions.push_back(options.nesterov ? g.add(momentum, mu) : momentum);
  }
  const std::vector<Tensor> orthogonal =
      newton_schulz(directions, options.muon_iterations,
                    problem.bf16_products ? at::kBFloat16 : at::CppTypeToScalarType<Real>::value);
  for (size_t i = 0; i < problem.matrices.size(); ++i) {
    const StepMatrix<Real>& matrix = problem.matrices[i];
    const auto rows = static_cast<double>(matrix.rows), columns = static_cast<double>(matrix.columns);
    const double scale = options.muon_scale == recipe::MuonScale::kOriginal
                             ? std::sqrt(std::max(1.0, rows / columns))
                             : 0.2 * std::sqrt(std::max(rows, columns));
    view(matrix.value, matrix)
        .mul_(1 - problem.lr * options.weight_decay)
        .sub_(orthogonal[i], problem.lr * scale);
  }
}
template void step_of_muon(const StepProblem<float>&);
template void step_of_muon(const StepProblem<double>&);

}  // namespace longhaul::kernels
