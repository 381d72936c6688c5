// Output that all tasks of `longhaul evaluate` share: tables, JSON and pages.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/progress.h"
#include "cli/models/evaluate.h"
#include "data/tokenizer/tokenizer.h"
#include "evaluate/answers.h"
#include "evaluate/grid.h"
#include "observe/charts/heat_map.h"

namespace longhaul::cli {

// The first rank speaks for all.
inline bool speaks(const evaluate::EvaluationShare& share) { return share.rank == 0; }

class TaskProgress {
 public:
  TaskProgress(const evaluate::EvaluationShare& share, const char* what, int64_t count) {
    if (speaks(share)) progress_.emplace(what, count);
  }
  void advance() {
    if (progress_) progress_->advance(1);
  }

 private:
  std::optional<Progress> progress_;
};

// Writes the page of --page, if one is wanted.
void write_page(const EvaluateArguments& arguments, const checkpoint::OpenModel& model,
                observe::ResultPage page);
// In percent; an entry that is NaN stays empty.
void print_grid(const std::string& title, const std::string& corner, const evaluate::Grid& grid);
// The fields with which every task's JSON begins.
nlohmann::ordered_json result_of(const EvaluateArguments& arguments, const checkpoint::OpenModel& model);

// The tasks that read files of public benchmarks (evaluate_files.cpp).
ExitCode run_mr_niah(const EvaluateArguments& arguments, const checkpoint::OpenModel& model,
                     evaluate::Answers& answers, const data::Tokenizer& tokenizer,
                     const evaluate::EvaluationShare& share);
ExitCode run_longbench(const EvaluateArguments& arguments, const checkpoint::OpenModel& model,
                       evaluate::Answers& answers, const data::Tokenizer& tokenizer,
                       const evaluate::EvaluationShare& share);

}  // namespace longhaul::cli
