#include "puzzles/grade/benchmark_results.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"
#include "base/threads/parallel.h"

namespace longhaul::puzzles {
namespace {

void add_problem(GroupResult& to, const std::vector<Grade>& grades) {
  Tried tried{.answers = static_cast<int64_t>(grades.size())};
  double share = 0;
  for (const Grade& each : grades) {
    tried.accepted += each.right() ? 1 : 0;
    to.answered += each.answered ? 1 : 0;
    share += each.share;
  }
  to.answers += tried.answers;
  to.problems.push_back(tried);
  to.shares.push_back(share / static_cast<double>(grades.size()));
}

}  // namespace

BenchmarkResults grade_all(const std::vector<BenchmarkProblem>& problems, const std::string& format,
                           const std::vector<std::vector<std::string>>& answers,
                           const std::string& answers_name) {
  if (problems.size() != answers.size())
    throw Error({.code = ExitCode::kData,
                 .what = "problems and answers do not belong together",
                 .expected = fmt::format("{}, one for each problem",
                                         counted(static_cast<int64_t>(problems.size()), "line")),
                 .found = fmt::format("{}", answers.size()),
                 .where = answers_name});
  BenchmarkResults results;
  results.grades.resize(problems.size());
  parallel_for(0, static_cast<int64_t>(problems.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      for (const std::string& response : answers[i])
        results.grades[i].push_back(grade(problems[i], format, response));
    }
  });
  for (size_t i = 0; i < problems.size(); ++i) {
    add_problem(results.groups[problems[i].group], results.grades[i]);
    add_problem(results.all, results.grades[i]);
  }
  return results;
}

std::vector<std::string> read_responses(const std::string& line, const std::string& where) {
  nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  if (json.is_object()) {
    for (const char* key : {"response", "responses"}) {
      if (!json.contains(key)) continue;
      nlohmann::json inner = json[key];
      json = std::move(inner);
      break;
    }
  }
  std::vector<std::string> all;
  if (json.is_string()) all.push_back(json.get<std::string>());
  if (json.is_array() && !json.empty() &&
      std::ranges::all_of(json, [](const auto& each) { return each.is_string(); }))
    all = json.get<std::vector<std::string>>();
  if (!all.empty()) return all;
  throw Error(
      {.code = ExitCode::kData,
       .what = "unusable line of answers",
       .expected = "a JSON text, a list of them, or {\"response\": …}: all that was answered, tags included",
       .found = brief(printable(line)),
       .where = where});
}

}  // namespace longhaul::puzzles
