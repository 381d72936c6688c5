// The results of a benchmark: each group's and all together, from one answer or several to each problem.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "puzzles/grade/benchmark.h"
#include "puzzles/grade/pass_rate.h"

namespace longhaul::puzzles {

struct GroupResult {
  std::vector<Tried> problems;
  std::vector<double> shares;  // of each problem: the mean over its answers of the share that is right
  int64_t answers = 0, answered = 0;
};
struct BenchmarkResults {
  std::map<std::string, GroupResult> groups;
  GroupResult all;
  std::vector<std::vector<Grade>> grades;  // of each problem, each answer
};

// kData where the answers are not as many as the problems, or a problem has none.
BenchmarkResults grade_all(const std::vector<BenchmarkProblem>& problems, const std::string& format,
                           const std::vector<std::vector<std::string>>& answers,
                           const std::string& answers_name);

// A line of answers: a text, a list of texts, or an object with "response" or "responses" that is one of
// them. kData.
std::vector<std::string> read_responses(const std::string& line, const std::string& where);

}  // namespace longhaul::puzzles
