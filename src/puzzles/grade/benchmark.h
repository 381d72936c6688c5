// Public benchmarks from local files, graded by exact rules: nobody's words are judged by a model, and
// nothing is evaluated.
//
//   puzzles       records of `puzzles generate`                  by the verifier of their task
//   kor-bench     question, answer "[[…]]", category             the last [[…]]; puzzles: letters and digits
//                                                                alone; else text or mathematics
//   bbh, bbeh     input, target; or {"examples": [those]}         text, case, full stop and blanks behind
//                                                                 commas aside; "(a)" as "a"; numbers as
//                                                                 numbers
//   zebra-logic   solution {header, rows}                        the last JSON object: all cells; the share
//                                                                of cells is told too
//   math          problem or question, answer, or solution with \boxed{…}   mathematics (math_answer.h):
//                                                                           MATH, AIME, AMC
//
// Files are JSON Lines, or JSON: a list, or an object whose "examples" is one. Bad lines are kData errors
// that name file, line and field.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::puzzles {

std::vector<std::string> benchmark_formats();

struct BenchmarkProblem {
  std::string group;  // category, task or subject; what the results are told by
  nlohmann::json record;
  std::string where;  // "file.jsonl:3"
};

std::vector<BenchmarkProblem> read_benchmark(const std::filesystem::path& file,
                                             const std::string& format);  // "": by the fields of the first

struct Grade {
  bool answered = false;  // an answer was found in the response
  double share = 0;       // of the answer that is right: 0 or 1, in a zebra puzzle of its cells
  bool right() const { return share == 1; }
};
std::string format_of(const std::vector<BenchmarkProblem>& problems);  // by their fields; kData
Grade grade(const BenchmarkProblem& problem, const std::string& format, std::string_view response);

// The answer in a response: the text between the last answer tags, else in the last \boxed{…}, else behind
// the last "answer is" up to the end of its line; all behind the last closing think tag. Empty: there is
// none.
std::string final_answer(std::string_view response);

}  // namespace longhaul::puzzles
