// Compares two runs by their events: it finds the first step whose numbers differ in any bit, and how far
// apart they get. Comparing checkpoints tells which tensor differs; this tells where to look.
//
//   const Comparison comparison = compare("runs/a", "runs/b");
//   if (!comparison.equal()) fmt::print("{}", comparison.text());
//
// If a step was done twice (in a resumed run), the later record counts. The compared fields are loss,
// grad_norm, learning_rate, tokens and auxiliary_loss of steps, and loss of evaluations; times are never
// compared.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace longhaul::observe {

struct FieldDifference {
  std::string field;             // "loss"; "evaluation.loss"
  int64_t step = 0;              // the first step that differs
  double first = 0, second = 0;  // the two values there; NaN where a run has none
  int64_t steps = 0;             // number of steps that differ
  double largest = 0;            // greatest |first - second|; infinite when only one of them is finite
  int64_t largest_step = 0;
};

struct Comparison {
  int64_t steps_in_both = 0;
  std::vector<int64_t> only_in_first, only_in_second;  // steps, in their order
  std::vector<FieldDifference> differences;            // only fields that differ, the earliest first
  // At least one step in both, and none that differs. Runs of different length are equal as far as both go.
  bool equal() const { return steps_in_both > 0 && differences.empty(); }
  // 0: none differs.
  int64_t first_step() const { return differences.empty() ? 0 : differences.front().step; }
  std::string text() const;
};

Comparison compare(const std::filesystem::path& first_run, const std::filesystem::path& second_run);

}  // namespace longhaul::observe
