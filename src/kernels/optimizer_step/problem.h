// The checked arguments of optimizer_step, with the tensors' memory as matrices, and the step of each
// optimizer on them.
#pragma once

#include <cstdint>
#include <vector>

#include "recipe/optimizers/optimizers.h"

namespace longhaul::kernels {

// One matrix [rows, columns] of a tensor, or a vector, which is a row; memory lies side by side.
template <class Real>
struct StepMatrix {
  bool vector = false;
  int64_t rows = 0, columns = 0;
  Real *value = nullptr, *gradient = nullptr;
  // Null where the optimizer keeps none.
  Real* momentum = nullptr;
  Real *first = nullptr, *second = nullptr;  // m, v
  Real *row_mean = nullptr, *column_mean = nullptr, *row_residual = nullptr, *column_residual = nullptr;
  Real* whole = nullptr;  // second_moment, sum_of_squares, of a vector
  int64_t elements() const { return rows * columns; }
};

template <class Real>
struct StepProblem {
  std::vector<StepMatrix<Real>> matrices;
  const recipe::OptimOptions& options;
  bool bf16_products = false;
  int64_t step = 1;
  double lr = 0;
  double momentum() const { return recipe::momentum_of(options); }
};

template <class Real>
void step_of_adamw(const StepProblem<Real>& problem);
template <class Real>
void step_of_lamb(const StepProblem<Real>& problem);
template <class Real>
void step_of_came(const StepProblem<Real>& problem);
template <class Real>
void step_of_adafactor(const StepProblem<Real>& problem);
template <class Real>
void step_of_lion(const StepProblem<Real>& problem);
template <class Real>
void step_of_sm3(const StepProblem<Real>& problem);
template <class Real>
void step_of_muon(const StepProblem<Real>& problem);
template <class Real>
void step_of_sgd(const StepProblem<Real>& problem);

}  // namespace longhaul::kernels
