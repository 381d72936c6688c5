// `longhaul evaluate CKPT --task mr-niah|longbench --data PATH`
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/log.h"
#include "base/text/text.h"
#include "cli/models/evaluate_output.h"
#include "cli/output.h"
#include "evaluate/asked.h"
#include "evaluate/longbench.h"
#include "evaluate/mr_niah.h"
#include "optim/schedule.h"

namespace longhaul::cli {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kSpareTokens = 64;  // of an answer, for words around what is repeated

void require_data(const EvaluateArguments& arguments, const char* expected) {
  if (!arguments.data.empty()) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "there are no questions",
               .expected = expected,
               .found = "no --data",
               .hint = "docs/guides/evaluate.md says where the files are published"});
}

// Means of scores by two names each; NaN where there are none.
class Means {
 public:
  void add(const std::string& row, const std::string& column, double score) {
    auto& [sum, count] = sums_[{row, column}];
    sum += score;
    ++count;
  }
  evaluate::Grid grid(std::vector<std::string> rows, std::vector<std::string> columns) const {
    evaluate::Grid grid{.rows = std::move(rows), .columns = std::move(columns), .values = {}};
    for (const std::string& row : grid.rows) {
      auto& values = grid.values.emplace_back();
      for (const std::string& column : grid.columns) {
        const auto found = sums_.find({row, column});
        values.push_back(found == sums_.end()
                             ? std::numeric_limits<double>::quiet_NaN()
                             : found->second.first / static_cast<double>(found->second.second));
      }
    }
    return grid;
  }

 private:
  std::map<std::pair<std::string, std::string>, std::pair<double, int64_t>> sums_;
};

double mean_of(const std::vector<double>& scores) {
  double sum = 0;
  for (const double score : scores) sum += score;
  return sum / static_cast<double>(scores.size());
}

// The model's own template, if it has one and the texts are asked through it.
std::optional<data::chat::ChatFormat> format_of(const checkpoint::OpenModel& model) {
  return data::chat::ChatFormat::of_run(model.tokenizer.parent_path());
}

const char* asked_how(const std::optional<data::chat::ChatFormat>& format) {
  return format ? "chat template" : "plain text";
}

ordered_json grid_json(const evaluate::Grid& grid) {
  ordered_json rows = ordered_json::object();
  for (size_t r = 0; r < grid.rows.size(); ++r) {
    for (size_t c = 0; c < grid.columns.size(); ++c)
      rows[grid.rows[r]][grid.columns[c]] =
          std::isfinite(grid.values[r][c]) ? ordered_json(grid.values[r][c]) : ordered_json(nullptr);
  }
  return rows;
}

}  // namespace

ExitCode run_mr_niah(const EvaluateArguments& arguments, const checkpoint::OpenModel& model,
                     evaluate::Answers& answers, const data::Tokenizer& tokenizer,
                     const evaluate::EvaluationShare& share) {
  require_data(arguments, "--data FILE or FOLDER, MR-NIAH's JSON Lines");
  const auto items = evaluate::read_mr_niah(arguments.data, arguments.limit);
  const auto format = format_of(model);
  std::vector<evaluate::AskedText> texts;
  for (const evaluate::MrNiahItem& item : items)
    texts.push_back(
        evaluate::asked_of(item, static_cast<int64_t>(tokenizer.encode(item.label).size()) + kSpareTokens));
  TaskProgress progress(share, "conversations", static_cast<int64_t>(texts.size()));
  const evaluate::AskedScores result = evaluate::ask(
      answers, tokenizer, texts, {.format = format ? &*format : nullptr}, [&] { progress.advance(); }, share);
  if (!speaks(share)) return ExitCode::kDone;
  Means means;
  std::set<int64_t> lengths, places;
  const auto place_name = [](int64_t place) { return fmt::format("place {}", place); };
  for (size_t i = 0; i < items.size(); ++i) {
    lengths.insert(items[i].length_class);
    places.insert(items[i].place);
    means.add(place_name(items[i].place), count_text(items[i].length_class), result.scores[i]);
  }
  std::vector<std::string> rows, columns;
  for (const int64_t place : places) rows.push_back(place_name(place));
  for (const int64_t length : lengths) columns.push_back(count_text(length));
  const evaluate::Grid grid = means.grid(rows, columns);
  const double mean = mean_of(result.scores);
  if (arguments.json) {
    ordered_json json = result_of(arguments, model);
    json.erase("seed");
    json.update({{"conversations", items.size()},
                 {"asked_by", asked_how(format)},
                 {"lengths", lengths},
                 {"places", places},
                 {"scores", grid_json(grid)},
                 {"mean", mean}});
    print_json(json);
  } else {
    print_grid("mr-niah: parts repeated, by place of the answer and tokens", "place", grid);
    print(fmt::format("step {}: {:.1f} % of the parts in {}, by {}\n", model.step, 100 * mean,
                      counted(std::ssize(items), "conversation"), asked_how(format)));
  }
  write_page(
      arguments, model,
      {.title = "MR-NIAH",
       .summary = "Long conversations whose last question asks for what was said earlier, word for word. "
                  "Place 1 is the earliest of the places that a file has for an answer.",
       .tiles = {{"repeated", fmt::format("{:.1f} %", 100 * mean)}},
       .maps = {{.title = "Parts repeated, percent",
                 .row_axis = "place of the answer",
                 .column_axis = "tokens",
                 .rows = grid.rows,
                 .columns = grid.columns,
                 .values = grid.values}},
       .facts = {{"conversations", count_text(std::ssize(items))}, {"asked by", asked_how(format)}}});
  return ExitCode::kDone;
}

ExitCode run_longbench(const EvaluateArguments& arguments, const checkpoint::OpenModel& model,
                       evaluate::Answers& answers, const data::Tokenizer& tokenizer,
                       const evaluate::EvaluationShare& share) {
  require_data(arguments, "--data FILE or FOLDER, LongBench's JSON Lines or v2's JSON");
  const evaluate::LongBench bench = evaluate::read_longbench(arguments.data, arguments.limit);
  const auto format = format_of(model);
  const auto& recipe = model.recipe.recipe;
  const int64_t context =
      arguments.context > 0 ? arguments.context : optim::longest_sequence(recipe.optim, recipe.train);
  std::vector<evaluate::AskedText> texts;
  for (const evaluate::LongBenchItem& item : bench.items) texts.push_back(item.asked);
  TaskProgress progress(share, "questions", static_cast<int64_t>(texts.size()));
  const evaluate::AskedScores result = evaluate::ask(
      answers, tokenizer, texts, {.context = context, .format = format ? &*format : nullptr},
      [&] { progress.advance(); }, share);
  if (!speaks(share)) return ExitCode::kDone;
  const std::string all = "all";
  Means means;
  std::set<std::string> groups;
  for (size_t i = 0; i < texts.size(); ++i) {
    const evaluate::LongBenchItem& item = bench.items[i];
    groups.insert(item.group);
    for (const std::string& row : {item.group, all}) {
      for (const std::string& column : {item.length, all}) means.add(row, column, result.scores[i]);
    }
  }
  std::vector<std::string> rows, columns = {all};
  if (bench.version == 2) {
    rows = {"easy", "hard"};
  } else {
    std::ranges::copy_if(evaluate::longbench_data_sets(), std::back_inserter(rows),
                         [&](const std::string& name) { return groups.contains(name); });
  }
  rows.push_back(all);
  std::ranges::copy(evaluate::longbench_lengths(bench.version), std::back_inserter(columns));
  evaluate::Grid grid = means.grid(rows, columns);
  // Data sets of v1 count alike, however many questions they have; questions of v2 do.
  double score = mean_of(result.scores);
  if (bench.version == 1) {
    for (size_t c = 0; c < columns.size(); ++c) {
      double sum = 0, count = 0;
      for (size_t r = 0; r + 1 < rows.size(); ++r) {
        if (std::isfinite(grid.values[r][c])) sum += grid.values[r][c], ++count;
      }
      grid.values.back()[c] = count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
    }
    score = grid.values.back()[0];
  }
  const char* const name = bench.version == 1 ? "LongBench" : "LongBench v2";
  const char* const measure = bench.version == 1 ? "score" : "right";
  if (arguments.json) {
    ordered_json json = result_of(arguments, model);
    json.erase("seed");
    json.update({{"version", bench.version},
                 {"questions", texts.size()},
                 {"cut", result.cut},
                 {"context", context},
                 {"asked_by", asked_how(format)},
                 {"scores", grid_json(grid)},
                 {measure, score}});
    print_json(json);
  } else {
    print_grid(fmt::format("{}: {}", name, counted(std::ssize(texts), "question")),
               bench.version == 1 ? "data set" : "difficulty", grid);
    print(fmt::format("step {}: {:.1f} % {}, by {}; {} lost the middle, for a context of {} tokens\n",
                      model.step, 100 * score, measure, asked_how(format), count_text(result.cut), context));
  }
  write_page(
      arguments, model,
      {.title = name,
       .summary = bench.version == 1 ? "Questions about long texts, by LongBench's measures; data sets "
                                       "count alike in the last row."
                                     : "Questions with four choices about long texts.",
       .tiles = {{measure, fmt::format("{:.1f} %", 100 * score)}},
       .maps = {{.title = bench.version == 1 ? "Scores, percent" : "Right answers, percent",
                 .row_axis = bench.version == 1 ? "data set" : "difficulty",
                 .column_axis = bench.version == 1 ? "words" : "length",
                 .rows = grid.rows,
                 .columns = grid.columns,
                 .values = grid.values}},
       .facts = {{"questions", count_text(std::ssize(texts))},
                 {"lost the middle", count_text(result.cut)},
                 {"context", count_text(context)},
                 {"asked by", asked_how(format)}}});
  return ExitCode::kDone;
}

}  // namespace longhaul::cli
