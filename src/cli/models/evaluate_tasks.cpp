// `longhaul evaluate CKPT --task needle|mqar|copy|ruler|choice`; the other tasks are in evaluate_files.cpp.
#include "cli/models/evaluate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/files/file.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "base/text/text.h"
#include "cli/models/evaluate_output.h"
#include "cli/models/model_tokenizer.h"
#include "cli/output.h"
#include "evaluate/choice_files.h"
#include "evaluate/decoder_answers.h"
#include "evaluate/grid.h"
#include "evaluate/recall.h"
#include "language/recall.h"
#include "observe/charts/heat_map.h"
#include "observe/table.h"

namespace longhaul::cli {
namespace {

using nlohmann::ordered_json;
using observe::Align;

// "512,1024" → numbers, each in its range.
std::vector<int64_t> numbers_of(const std::string& words, const char* option, int64_t least, int64_t most) {
  std::vector<int64_t> numbers;
  for (const std::string_view each : split(words, ',')) {
    const std::string word(each);
    const bool digits =
        !word.empty() && word.size() < 12 && word.find_first_not_of("0123456789") == std::string::npos;
    const int64_t number = digits ? std::stoll(word) : -1;
    if (digits && number >= least && number <= most) {
      numbers.push_back(number);
      continue;
    }
    throw Error({.code = ExitCode::kUsage,
                 .what = "not a list of numbers",
                 .expected = fmt::format("whole numbers from {} to {}, with commas between", least, most),
                 .found = brief(words),
                 .where = option,
                 .hint = fmt::format("{} 512,1024", option)});
  }
  return numbers;
}

std::vector<int64_t> lengths_of(const EvaluateArguments& arguments, int64_t sequence) {
  if (!arguments.lengths.empty()) return numbers_of(arguments.lengths, "--lengths", 1, int64_t{1} << 30);
  return {sequence, 2 * sequence, 4 * sequence};
}

evaluate::GridRequest grid_request(const EvaluateArguments& arguments, const checkpoint::OpenModel& model) {
  evaluate::GridRequest request{.lengths = lengths_of(arguments, model.recipe.recipe.train.sequence),
                                .samples = arguments.samples > 0 ? arguments.samples : 10,
                                .seed = arguments.seed,
                                .haystack = {}};
  if (arguments.haystack.empty()) return request;
  request.haystack = evaluate::sentences_of(read_text(arguments.haystack));
  if (!request.haystack.empty()) return request;
  throw Error({.code = ExitCode::kData,
               .what = "there is no hay",
               .expected = "a text with sentences",
               .found = "none",
               .where = arguments.haystack});
}

ExitCode run_needle(const EvaluateArguments& arguments, const checkpoint::OpenModel& model,
                    evaluate::Answers& answers, const data::Tokenizer& tokenizer,
                    const evaluate::EvaluationShare& share) {
  const evaluate::GridRequest request = grid_request(arguments, model);
  std::vector<double> depths;
  for (const int64_t percent : numbers_of(arguments.depths, "--depths", 0, 100))
    depths.push_back(static_cast<double>(percent) / 100);
  TaskProgress progress(share, "needles",
                        static_cast<int64_t>(depths.size() * request.lengths.size()) * request.samples);
  const evaluate::Grid grid = needle_grid(
      answers, tokenizer, request, arguments.kind, depths, [&] { progress.advance(); }, share);
  if (!speaks(share)) return ExitCode::kDone;
  const double weighted = weighted_score(grid, arguments.weight_growth);
  if (arguments.json) {
    ordered_json json = result_of(arguments, model);
    json.update({{"kind", arguments.kind},
                 {"samples", request.samples},
                 {"lengths", request.lengths},
                 {"depths", depths},
                 {"scores", grid.values},
                 {"score", grid.mean()},
                 {"weighted", weighted},
                 {"weight_growth", arguments.weight_growth}});
    print_json(json);
  } else {
    print_grid(fmt::format("needle ({}): share of answers found, by depth and tokens", arguments.kind),
               "depth", grid);
    print(fmt::format("step {}: {:.1f} % found, {:.1f} % weighted\n", model.step, 100 * grid.mean(),
                      100 * weighted));
  }
  write_page(
      arguments, model,
      {.title = "Needle in a haystack",
       .summary = fmt::format(
           "Of what was hidden in the text, how much the model says when it is asked ({}).", arguments.kind),
       .tiles = {{"found", fmt::format("{:.1f} %", 100 * grid.mean())},
                 {"weighted", fmt::format("{:.1f} %", 100 * weighted)}},
       .maps = {{.title = "Answers found, percent",
                 .row_axis = "depth",
                 .column_axis = "tokens",
                 .rows = grid.rows,
                 .columns = grid.columns,
                 .values = grid.values}},
       .facts = {{"questions an entry", count_text(request.samples)}, {"kind", arguments.kind}}});
  return ExitCode::kDone;
}

std::vector<std::string> kinds_of(const EvaluateArguments& arguments) {
  const std::vector<std::string> known = evaluate::ruler_kinds();
  if (arguments.kinds.empty()) return known;
  std::vector<std::string> kinds;
  for (const std::string_view kind : split(arguments.kinds, ',')) {
    kinds.emplace_back(kind);
    if (std::ranges::find(known, kinds.back()) != known.end()) continue;
    throw Error({.code = ExitCode::kUsage,
                 .what = "unknown kind of question",
                 .expected = fmt::format("{}", fmt::join(known, ", ")),
                 .found = brief(kinds.back()),
                 .where = "--kinds"});
  }
  return kinds;
}

ExitCode run_ruler(const EvaluateArguments& arguments, const checkpoint::OpenModel& model,
                   evaluate::Answers& answers, const data::Tokenizer& tokenizer,
                   const evaluate::EvaluationShare& share) {
  const evaluate::GridRequest request = grid_request(arguments, model);
  const std::vector<std::string> kinds = kinds_of(arguments);
  TaskProgress progress(share, "questions",
                        static_cast<int64_t>(kinds.size() * request.lengths.size()) * request.samples);
  const evaluate::Grid grid = ruler_grid(
      answers, tokenizer, request, kinds, [&] { progress.advance(); }, share);
  if (!speaks(share)) return ExitCode::kDone;
  if (arguments.json) {
    ordered_json json = result_of(arguments, model);
    json.update({{"kinds", kinds},
                 {"samples", request.samples},
                 {"lengths", request.lengths},
                 {"scores", grid.values},
                 {"score", grid.mean()}});
    print_json(json);
  } else {
    print_grid("ruler: share of answers found, by kind and tokens", "kind", grid);
    print(fmt::format("step {}: {:.1f} % found\n", model.step, 100 * grid.mean()));
  }
  write_page(arguments, model,
             {.title = "Questions about long texts",
              .summary = "The kinds of RULER that need no other data, made up from a seed.",
              .tiles = {{"found", fmt::format("{:.1f} %", 100 * grid.mean())}},
              .maps = {{.title = "Answers found, percent",
                        .row_axis = "kind",
                        .column_axis = "tokens",
                        .rows = grid.rows,
                        .columns = grid.columns,
                        .values = grid.values}},
              .facts = {{"questions an entry", count_text(request.samples)}}});
  return ExitCode::kDone;
}

// mqar and copy: by how much is to be remembered, and how long the sequence is. What does not fit is left
// out.
ExitCode run_recall(const EvaluateArguments& arguments, const checkpoint::OpenModel& model,
                    evaluate::Answers& answers, const evaluate::EvaluationShare& share) {
  data::RecallShape shape = language::recall_shape(model.recipe.recipe);
  shape.kind = arguments.task == "mqar" ? recipe::RecallKind::kMqar : recipe::RecallKind::kCopy;
  const std::vector<int64_t> lengths =
      arguments.lengths.empty() ? std::vector{shape.sequence} : lengths_of(arguments, 0);
  const std::vector<int64_t> pairs =
      arguments.pairs.empty() ? std::vector{shape.pairs} : numbers_of(arguments.pairs, "--pairs", 1, 1 << 24);
  const int64_t samples = arguments.samples > 0 ? arguments.samples : 64;
  evaluate::Grid grid;
  ordered_json entries = ordered_json::array();
  for (const int64_t length : lengths) grid.columns.push_back(count_text(length));
  double sum = 0;
  for (const int64_t count : pairs) {
    grid.rows.push_back(count_text(count));
    auto& row = grid.values.emplace_back();
    for (const int64_t length : lengths) {
      shape.pairs = count, shape.sequence = length;
      row.push_back(std::nan(""));
      if (!problem_of(shape).empty() && pairs.size() * lengths.size() > 1) continue;
      const evaluate::RecallScore score = *score_recall(answers, shape, arguments.seed, samples, {}, share);
      row.back() = score.accuracy;
      sum += score.accuracy;
      entries.push_back({{"length", length},
                         {"pairs", count},
                         {"accuracy", score.accuracy},
                         {"whole", score.whole},
                         {"loss", score.loss}});
    }
  }
  if (!speaks(share)) return ExitCode::kDone;
  const double mean = sum / static_cast<double>(entries.size()), chance = chance_of(shape);
  if (arguments.json) {
    ordered_json json = result_of(arguments, model);
    json.update({{"accuracy", mean},
                 {"chance", chance},
                 {"sequences", samples},
                 {"vocabulary", shape.vocabulary},
                 {"entries", entries}});
    print_json(json);
  } else {
    print_grid(fmt::format("{}: share of right answers, by {} and tokens", arguments.task,
                           arguments.task == "mqar" ? "pairs" : "tokens to copy"),
               arguments.task == "mqar" ? "pairs" : "to copy", grid);
    print(fmt::format("step {}: {:.1f} % right; chance is {:.2g} %\n", model.step, 100 * mean, 100 * chance));
  }
  write_page(
      arguments, model,
      {.title = arguments.task == "mqar" ? "Associative recall" : "Long-range copy",
       .summary = arguments.task == "mqar"
                      ? "Keys and values stand first; then the values of keys are asked for."
                      : "Random tokens, a gap, and the same tokens again.",
       .tiles = {{"right", fmt::format("{:.1f} %", 100 * mean)},
                 {"chance", fmt::format("{:.2g} %", 100 * chance)}},
       .maps = {{.title = "Right answers, percent",
                 .row_axis = arguments.task == "mqar" ? "pairs" : "to copy",
                 .column_axis = "tokens",
                 .rows = grid.rows,
                 .columns = grid.columns,
                 .values = grid.values}},
       .facts = {{"sequences an entry", count_text(samples)}, {"vocabulary", count_text(shape.vocabulary)}}});
  return ExitCode::kDone;
}

ExitCode run_choice(const EvaluateArguments& arguments, const checkpoint::OpenModel& model,
                    evaluate::Answers& answers, const data::Tokenizer& tokenizer,
                    const evaluate::EvaluationShare& share) {
  if (arguments.data.empty()) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "there are no questions",
                 .expected = "--data FILE, JSON Lines with one question a line",
                 .found = "no --data",
                 .hint = "docs/guides/evaluate.md lists the formats"});
  }
  const std::string format =
      arguments.format.empty() ? evaluate::format_by_fields(arguments.data) : arguments.format;
  const auto items = evaluate::read_choices(arguments.data, format, arguments.limit);
  TaskProgress progress(share, "questions", static_cast<int64_t>(items.size()));
  const evaluate::ChoiceSettings settings{.prefix = evaluate::choice_prefix(arguments.prefix),
                                          .positions = model.recipe.recipe.model.max_positions};
  const evaluate::ChoiceResult result = score_choices(
      answers, tokenizer, items, settings, [&] { progress.advance(); }, share);
  if (!speaks(share)) return ExitCode::kDone;
  if (result.cut > 0)
    log_warning(
        "{} of {}: longer than the model's {} positions (model.max_positions), so scored by the end, as "
        "lm-evaluation-harness does",
        count_text(result.cut), counted(result.items, "question"), settings.positions);
  if (arguments.json) {
    ordered_json json = result_of(arguments, model);
    json.erase("seed");
    json.update({{"format", format},
                 {"items", result.items},
                 {"cut", result.cut},
                 {"acc", result.acc},
                 {"acc_stderr", result.acc_error},
                 {"acc_norm", result.acc_norm},
                 {"acc_norm_stderr", result.acc_norm_error},
                 {"acc_bytes", result.acc_bytes},
                 {"acc_mutual_info", result.acc_mutual_info},
                 {"chance", result.chance}});
    print_json(json);
  } else {
    observe::Table table(fmt::format("{}: {}", format, counted(result.items, "question")),
                         {{"score"}, {"right", Align::kRight}, {"±", Align::kRight}});
    const auto percent = [](double right) { return fmt::format("{:.2f} %", 100 * right); };
    table.row({"acc", percent(result.acc), percent(result.acc_error)});
    table.row({"acc_norm", percent(result.acc_norm), percent(result.acc_norm_error)});
    table.row({"acc_bytes", percent(result.acc_bytes), ""});
    table.row({"acc_mutual_info", percent(result.acc_mutual_info), ""});
    table.total({"chance", percent(result.chance), ""});
    print(table.text(colours_wanted(stdout)));
  }
  return ExitCode::kDone;
}

}  // namespace

ExitCode run_evaluation_task(const EvaluateArguments& arguments, checkpoint::OpenModel& model,
                             const evaluate::EvaluationShare& share) {
  if (arguments.task == "mqar" || arguments.task == "copy") {
    evaluate::DecoderAnswers answers(*model.decoder, {.tokens_per_pass = arguments.tokens_per_pass});
    return run_recall(arguments, model, answers, share);
  }
  const data::Tokenizer tokenizer = tokenizer_for(model, arguments.tokenizer);
  const std::vector<int32_t> gaps = tokenizer.without_token();
  evaluate::DecoderAnswers answers(*model.decoder, {.tokens_per_pass = arguments.tokens_per_pass,
                                                    .vocabulary = tokenizer.vocabulary(),
                                                    .never = {gaps.begin(), gaps.end()}});
  if (arguments.task == "needle") return run_needle(arguments, model, answers, tokenizer, share);
  if (arguments.task == "ruler") return run_ruler(arguments, model, answers, tokenizer, share);
  if (arguments.task == "mr-niah") return run_mr_niah(arguments, model, answers, tokenizer, share);
  if (arguments.task == "longbench") return run_longbench(arguments, model, answers, tokenizer, share);
  return run_choice(arguments, model, answers, tokenizer, share);
}

}  // namespace longhaul::cli
