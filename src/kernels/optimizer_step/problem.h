// The checked arguments of optimizer_step: options by name, and the tensors' memory as runs of elements and
// as matrices.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/optimizer_step/op.h"

namespace longhaul::kernels {

// The options of a rule, those that were given and the others.
class StepOptions {
 public:
  // kUsage for too many, and for numbers out of range
  StepOptions(const StepRule& rule, const std::vector<double>& given);
  double operator[](std::string_view name) const;
  bool flag(std::string_view name) const { return (*this)[name] != 0; }
  const StepRule& rule() const { return *rule_; }

 private:
  const StepRule* rule_;
  std::vector<double> numbers_;
};

// One matrix [rows, columns] of a tensor, or a vector, which is a row; memory lies side by side.
template <class Real>
struct StepMatrix {
  bool vector = false;
  int64_t rows = 0, columns = 0;
  Real *value = nullptr, *gradient = nullptr;
  // In the order of op.h: states[0] is the momentum where there is one. Null where the rule keeps none.
  Real* momentum = nullptr;
  Real *first = nullptr, *second = nullptr;  // m, v
  Real *row_mean = nullptr, *column_mean = nullptr, *row_residual = nullptr, *column_residual = nullptr;
  Real* whole = nullptr;  // second_moment, sum_of_squares, of a vector
  int64_t elements() const { return rows * columns; }
};

template <class Real>
struct StepProblem {
  std::vector<StepMatrix<Real>> matrices;
  StepOptions options;
  int64_t step = 1;
  double lr = 0;
};

template <class Real>
void step_of_elements(const StepProblem<Real>& problem);  // adamw, lamb, lion, sgd
template <class Real>
void step_of_came(const StepProblem<Real>& problem);
template <class Real>
void step_of_adafactor(const StepProblem<Real>& problem);
template <class Real>
void step_of_sm3(const StepProblem<Real>& problem);
template <class Real>
void step_of_muon(const StepProblem<Real>& problem);

}  // namespace longhaul::kernels
