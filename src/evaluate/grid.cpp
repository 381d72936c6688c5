#include "evaluate/grid.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/progress.h"

namespace longhaul::evaluate {
namespace {

constexpr int64_t kSpareTokens = 8;  // of an answer, for words around it

int64_t answer_tokens(const Question& made, const data::Tokenizer& tokenizer) {
  return static_cast<int64_t>(tokenizer.encode(fmt::format(" {}.", fmt::join(made.answers, ", "))).size()) +
         kSpareTokens;
}

// Not even the shortest question of the kind, with its answer, is so short. Answers differ by a few tokens
// from question to question.
bool too_short(QuestionRequest question, const data::Tokenizer& tokenizer, int64_t length) {
  question.tokens = fewest_tokens(question, tokenizer);
  return length <
         question.tokens + answer_tokens(make_question(question, tokenizer), tokenizer) + 2 * kSpareTokens;
}

double score_of(Answers& answers, const data::Tokenizer& tokenizer, QuestionRequest question,
                int64_t length) {
  const std::vector<int32_t> beginning = tokenizer.beginning(), stop_ids = tokenizer.stop_ids();
  const std::vector<int64_t> stops(stop_ids.begin(), stop_ids.end());
  // How long the answer is decides how much is left for the question; of one kind all are about as long.
  question.tokens = std::max<int64_t>(length, 1);
  const int64_t room = answer_tokens(make_question(question, tokenizer), tokenizer);
  question.tokens = length - room - static_cast<int64_t>(beginning.size());
  const Question made = make_question(question, tokenizer);
  const std::vector<int32_t> prompt = tokenizer.encode_prompt(made.prompt);
  const std::vector<int64_t> ids(prompt.begin(), prompt.end()), said = answers.complete(ids, room, stops);
  return share_matched(tokenizer.decode(std::vector<int32_t>(said.begin(), said.end())), made.answers);
}

// The means of entries, a row of lengths for each of `questions`; NaN where left_out(question, length).
template <class LeftOut>
std::vector<std::vector<double>> mean_scores(Answers& answers, const data::Tokenizer& tokenizer,
                                             const GridRequest& request,
                                             const std::vector<QuestionRequest>& questions,
                                             const LeftOut& left_out, const std::function<void()>& progress,
                                             const EvaluationShare& share) {
  std::vector<double> scores;  // of every question in turn; 0 where another rank has it
  std::vector<bool> asked;     // of entries
  for (QuestionRequest question : questions) {
    question.seed = request.seed;
    question.haystack = request.haystack;
    for (const int64_t length : request.lengths) {
      asked.push_back(!left_out(question, length));
      for (int64_t s = 0; s < request.samples; ++s) {
        question.index = s;
        if (asked.back())
          scores.push_back(share.has(static_cast<int64_t>(scores.size()))
                               ? score_of(answers, tokenizer, question, length)
                               : 0);
        if (progress) progress();
      }
    }
  }
  share.complete(scores);
  std::vector<std::vector<double>> means(questions.size());
  auto next = scores.begin();
  for (size_t entry = 0; entry < asked.size(); ++entry) {
    double sum = 0;
    for (int64_t s = 0; asked[entry] && s < request.samples; ++s) sum += *next++;
    means[entry / request.lengths.size()].push_back(asked[entry] ? sum / static_cast<double>(request.samples)
                                                                 : std::numeric_limits<double>::quiet_NaN());
  }
  return means;
}

std::vector<std::string> length_names(const GridRequest& request) {
  std::vector<std::string> names;
  for (const int64_t length : request.lengths) names.push_back(count_text(length));
  return names;
}

}  // namespace

double Grid::mean() const {
  double sum = 0;
  int64_t count = 0;
  for (const auto& row : values) {
    for (const double value : row) {
      if (std::isfinite(value)) sum += value, ++count;
    }
  }
  return sum / static_cast<double>(count);
}

Grid needle_grid(Answers& answers, const data::Tokenizer& tokenizer, const GridRequest& request,
                 const std::string& kind, const std::vector<double>& depths,
                 const std::function<void()>& progress, const EvaluationShare& share) {
  Grid grid{.rows = {}, .columns = length_names(request), .values = {}};
  std::vector<QuestionRequest> questions;
  for (const double depth : depths) {
    grid.rows.push_back(fmt::format("{:g} %", depth * 100));
    questions.push_back({.kind = kind, .depth = depth});
  }
  const auto none = [](const QuestionRequest&, int64_t) { return false; };
  grid.values = mean_scores(answers, tokenizer, request, questions, none, progress, share);
  return grid;
}

Grid ruler_grid(Answers& answers, const data::Tokenizer& tokenizer, const GridRequest& request,
                const std::vector<std::string>& kinds, const std::function<void()>& progress,
                const EvaluationShare& share) {
  Grid grid{.rows = kinds, .columns = length_names(request), .values = {}};
  std::vector<QuestionRequest> questions;
  for (const std::string& kind : kinds) questions.push_back({.kind = kind});
  const auto none = [&](QuestionRequest question, int64_t length) {
    question.index = 0;
    return too_short(std::move(question), tokenizer, length);
  };
  grid.values = mean_scores(answers, tokenizer, request, questions, none, progress, share);
  if (!std::isnan(grid.mean())) return grid;
  throw Error({.code = ExitCode::kUsage,
               .what = "no question of any kind is so short",
               .expected = "lengths of some hundred tokens",
               .found = fmt::format("{}", fmt::join(request.lengths, ", ")),
               .where = "--lengths",
               .hint = "ask for longer ones"});
}

double weighted_score(const Grid& grid, double alpha) {
  double sum = 0, weights = 0;
  for (size_t l = 0; l < grid.columns.size(); ++l) {
    int64_t runs = 1;
    for (size_t d = 1; d < grid.rows.size(); ++d)
      runs += (grid.values[d][l] >= 0.5) != (grid.values[d - 1][l] >= 0.5);
    const double consistency = std::exp2(static_cast<double>(1 - runs) / 2);
    for (size_t d = 0; d < grid.rows.size(); ++d) {
      const double weight = std::pow(alpha, static_cast<double>(d + l));
      sum += weight * consistency * grid.values[d][l];
      weights += weight;
    }
  }
  return sum / weights;
}

}  // namespace longhaul::evaluate
