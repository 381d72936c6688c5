// Clauses for a SAT solver from outside (picosat of Debian), as the second solver of puzzles that promise one
// solution.
//
//   Cnf cnf;
//   const int a = cnf.variable(), b = cnf.variable();
//   cnf.exactly_one({a, b});
//   count_models(cnf, {a, b}, 10);     // 2
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace longhaul::puzzles {

using Literals = std::vector<int>;  // of variables from 1; negative: not

class Cnf {
 public:
  int variable() { return ++variables_; }
  void clause(const Literals& any);
  void exactly_one(const Literals& literals);
  void iff_any(int variable, const Literals& any);  // variable ⇔ one of them
  // The weights of those that hold add up to `sum`.
  void adds_up(const std::vector<std::pair<int, int64_t>>& weighted, int64_t sum);
  std::string dimacs() const;

 private:
  int variables_ = 0;
  int64_t clauses_ = 0;
  std::string text_;
};

bool has_sat_solver();
std::optional<std::vector<bool>> model_of(const Cnf& cnf);  // by variable; none: there is none
// Models that differ in `places`, at most `limit`.
int64_t count_models(Cnf cnf, const Literals& places, int64_t limit);

}  // namespace longhaul::puzzles
