// `longhaul puzzles grade`: a public benchmark from a local file, graded by exact rules.
#include <fmt/format.h>
#include <sstream>

#include <algorithm>
#include <cmath>

#include "base/files/file.h"
#include "base/terminal.h"
#include "base/text/path_text.h"
#include "base/text/text.h"
#include "cli/output.h"
#include "cli/puzzles/verbs.h"
#include "observe/table.h"
#include "puzzles/engine/answers/literal.h"
#include "puzzles/grade/benchmark_results.h"

namespace longhaul::cli {
namespace {

struct GradeArguments {
  std::string file, answers, format, k;
  bool json = false;
};

// "1,8"; empty: as many as the problem has that has the fewest.
std::vector<int64_t> ks_of(const GradeArguments& arguments, const puzzles::GroupResult& all) {
  const int64_t fewest = std::ranges::min(all.problems, {}, &puzzles::Tried::answers).answers;
  if (arguments.k.empty()) return {fewest};
  std::vector<int64_t> ks;
  for (const std::string_view word : split(arguments.k, ',')) {
    const auto k = puzzles::read_integer(word);
    if (!k || *k < 1 || *k > fewest)
      throw Error({.code = ExitCode::kUsage,
                   .what = "pass@k cannot be told",
                   .expected = fmt::format("k from 1 to {}, the fewest answers that a problem has", fewest),
                   .found = std::string(word),
                   .where = "--k"});
    ks.push_back(*k);
  }
  return ks;
}

std::string with_error(const puzzles::Estimate& estimate) {
  return std::isnan(estimate.error) ? fmt::format("{:.3f}", estimate.mean)
                                    : fmt::format("{:.3f} ± {:.3f}", estimate.mean, estimate.error);
}

nlohmann::ordered_json json_of(const puzzles::Estimate& estimate) {
  return {{"mean", estimate.mean},
          {"standard_error",
           std::isnan(estimate.error) ? nlohmann::ordered_json() : nlohmann::ordered_json(estimate.error)}};
}

nlohmann::ordered_json json_of(const puzzles::GroupResult& group, const std::vector<int64_t>& ks) {
  nlohmann::ordered_json json = {{"problems", group.problems.size()},
                                 {"answers", group.answers},
                                 {"answered", group.answered},
                                 {"average", json_of(puzzles::average(group.problems))},
                                 {"share", json_of(puzzles::mean_of(group.shares))}};
  for (const int64_t k : ks) json[fmt::format("pass@{}", k)] = json_of(puzzles::pass_at_k(group.problems, k));
  return json;
}

void print_results(const puzzles::BenchmarkResults& results, const std::string& format,
                   const std::vector<int64_t>& ks) {
  const auto [fewest, most] = std::ranges::minmax(results.all.problems, {}, &puzzles::Tried::answers);
  std::vector<observe::Column> columns = {
      {"group"},
      {"problems", observe::Align::kRight},
      {"answered", observe::Align::kRight},
      {fewest.answers == most.answers ? fmt::format("avg@{}", most.answers) : "avg", observe::Align::kRight}};
  const bool has_cells = format == "zebra-logic";
  if (has_cells) columns.push_back({"cells", observe::Align::kRight});
  for (const int64_t k : ks) columns.push_back({fmt::format("pass@{}", k), observe::Align::kRight});
  observe::Table table(format, columns);
  const auto cells_of = [&](const std::string& name, const puzzles::GroupResult& group) {
    std::vector<std::string> cells = {name, std::to_string(group.problems.size()),
                                      fmt::format("{} of {}", group.answered, group.answers),
                                      with_error(puzzles::average(group.problems))};
    if (has_cells) cells.push_back(with_error(puzzles::mean_of(group.shares)));
    for (const int64_t k : ks) cells.push_back(with_error(puzzles::pass_at_k(group.problems, k)));
    return cells;
  };
  for (const auto& [name, group] : results.groups) table.row(cells_of(name, group));
  table.total(cells_of("all", results.all));
  print(table.text(colours_wanted(stdout)));
}

ExitCode grade_benchmark(const GradeArguments& arguments) {
  const auto problems = puzzles::read_benchmark(path_of_text(arguments.file), arguments.format);
  const std::string format = arguments.format.empty() ? puzzles::format_of(problems) : arguments.format;
  std::vector<std::vector<std::string>> answers;
  std::istringstream lines(read_text(path_of_text(arguments.answers)));
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (!line.empty() && line != "\r")
      answers.push_back(puzzles::read_responses(line, fmt::format("{}:{}", arguments.answers, number)));
  }
  const puzzles::BenchmarkResults results = puzzles::grade_all(problems, format, answers, arguments.answers);
  const std::vector<int64_t> ks = ks_of(arguments, results.all);
  if (!arguments.json) {
    print_results(results, format, ks);
    return ExitCode::kDone;
  }
  nlohmann::ordered_json groups = nlohmann::ordered_json::object(), each = nlohmann::ordered_json::array();
  for (const auto& [name, group] : results.groups) groups[name] = json_of(group, ks);
  for (const auto& of_problem : results.grades) {
    nlohmann::ordered_json shares = nlohmann::ordered_json::array();
    for (const puzzles::Grade& one : of_problem) shares.push_back(one.share);
    each.push_back(shares);
  }
  print_json({{"format", format}, {"all", json_of(results.all, ks)}, {"groups", groups}, {"shares", each}});
  return ExitCode::kDone;
}

}  // namespace

void add_puzzles_grade(Command& group) {
  auto arguments = std::make_shared<GradeArguments>();
  Command grade =
      group.add("grade", "answers to a public benchmark in a local file: avg@k and pass@k (docs/puzzles.md)",
                {{"competition mathematics", "puzzles grade aime.jsonl --answers answers.jsonl"},
                 {"with pass@1 and pass@8", "puzzles grade kor-bench.jsonl --answers answers.jsonl --k 1,8"},
                 {"BIG-Bench Extra Hard, for a program",
                  "puzzles grade task.json --answers answers.jsonl --format bbeh --json"}});
  grade
      .option("FILE", arguments->file,
              "the problems: JSON Lines or JSON, with the fields that they are published with")
      .required();
  grade
      .option("--answers", arguments->answers,
              "JSON Lines: to each problem, in order, a text, a list of them, or {\"response\": …}")
      .required();
  grade.option("--format", arguments->format, "of the problems (default: by the fields of the first)")
      .one_of(puzzles::benchmark_formats());
  grade.option("--k", arguments->k, "of pass@k, with commas (default: as many as there are answers)");
  grade.json_flag(arguments->json);
  grade.on_run([arguments] { return grade_benchmark(*arguments); });
}

}  // namespace longhaul::cli
