// The checked arguments of optimizer_step, with the tensors' memory as matrices, and the step of each
// optimizer on them.
#pragma once

#include <array>
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
  // The states, as the optimizer's entry lists them; null where it keeps none.
  Real *first = nullptr, *second = nullptr;                  // of every element
  std::array<Real*, 2> row_states = {}, column_states = {};  // in the order of the entry
  Real* whole = nullptr;                                     // of a vector: its second moment
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
