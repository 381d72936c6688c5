#include "puzzles/second_solvers/sat.h"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <sstream>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "base/process/process.h"

namespace longhaul::puzzles {
namespace {

constexpr int kSatisfiable = 10, kUnsatisfiable = 20;  // exit codes of every SAT solver of the competitions

}  // namespace

void Cnf::clause(const Literals& any) {
  for (const int literal : any) text_ += fmt::format("{} ", literal);
  text_ += "0\n";
  ++clauses_;
}

void Cnf::exactly_one(const Literals& literals) {
  clause(literals);
  for (size_t i = 0; i < literals.size(); ++i) {
    for (size_t j = 0; j < i; ++j) clause({-literals[i], -literals[j]});
  }
}

void Cnf::iff_any(int variable, const Literals& any) {
  Literals whole = any;
  whole.push_back(-variable);
  clause(whole);
  for (const int literal : any) clause({variable, -literal});
}

// A variable for every rest that is still wanted after the first i literals; it implies its two successors.
void Cnf::adds_up(const std::vector<std::pair<int, int64_t>>& weighted, int64_t sum) {
  std::map<int64_t, int> now = {{sum, variable()}};
  clause({now.begin()->second});
  for (const auto& [literal, weight] : weighted) {
    std::map<int64_t, int> next;
    const auto to = [&](int64_t rest) {
      const auto [at, is_new] = next.try_emplace(rest, 0);
      if (is_new) at->second = variable();
      return at->second;
    };
    for (const auto& [rest, from] : now) {
      clause({-from, literal, to(rest)});
      clause({-from, -literal, to(rest - weight)});
    }
    now = std::move(next);
  }
  for (const auto& [rest, variable] : now) {
    if (rest != 0) clause({-variable});
  }
}

std::string Cnf::dimacs() const { return fmt::format("p cnf {} {}\n", variables_, clauses_) + text_; }

bool has_sat_solver() {
  static const bool there = [] {
    try {
      return run_process({"picosat", "--version"}).status == 0;
    } catch (const Error&) {
      return false;
    }
  }();
  return there;
}

std::optional<std::vector<bool>> model_of(const Cnf& cnf) {
  const TemporaryFolder folder;
  write_text_atomically(folder / "puzzle.cnf", cnf.dimacs());
  const ProcessResult result = run_process({"picosat", (folder / "puzzle.cnf").string()});
  if (result.status == kUnsatisfiable) return std::nullopt;
  LONGHAUL_ASSERT(result.status == kSatisfiable, "picosat ended with {}: {}", result.status, result.errors);
  std::vector<bool> model(1);
  std::istringstream lines(result.output);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("v ")) continue;
    std::istringstream values(line.substr(2));
    for (int64_t value = 0; values >> value && value != 0;) {
      const auto at = static_cast<size_t>(std::abs(value));
      if (model.size() <= at) model.resize(at + 1);
      model[at] = value > 0;
    }
  }
  return model;
}

int64_t count_models(Cnf cnf, const Literals& places, int64_t limit) {
  int64_t count = 0;
  while (count < limit) {
    const std::optional<std::vector<bool>> model = model_of(cnf);
    if (!model) break;
    ++count;
    Literals other;
    for (const int place : places) other.push_back((*model)[static_cast<size_t>(place)] ? -place : place);
    cnf.clause(other);
  }
  return count;
}

}  // namespace longhaul::puzzles
