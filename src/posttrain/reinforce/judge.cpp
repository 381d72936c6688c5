#include "posttrain/reinforce/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "base/error.h"
#include "base/net/http.h"
#include "base/process/limited_process.h"
#include "base/text/number.h"
#include "base/text/text.h"
#include "base/threads/parallel.h"
#include "puzzles/engine/answers/answer.h"
#include "puzzles/score.h"

namespace longhaul::posttrain {
namespace {

double share_from_the_beginning(std::string_view text, std::string_view right) {
  const auto same = std::ranges::mismatch(text, right).in1 - text.begin();
  const size_t longer = std::max(text.size(), right.size());
  return longer == 0 ? 1 : static_cast<double>(same) / static_cast<double>(longer);
}

[[noreturn]] void refuse_verdict(const std::string& what, const std::string& found, const Prompt& prompt,
                                 const std::string& verifier) {
  throw Error(
      {.code = ExitCode::kData,
       .what = what,
       .expected = "one finite number for each answer",
       .found = found.substr(0, 200),
       .where = fmt::format("{}, prompt {} ({})", verifier, prompt.number, prompt.task),
       .hint = "try it by hand on this prompt; an answer that cannot be judged is never counted as wrong"});
}

// The numbers of a verifier's lines.
std::vector<double> numbers_in(const std::string& output, const Prompt& prompt, const std::string& verifier) {
  std::vector<double> numbers;
  for (const std::string_view piece : split(output, '\n')) {
    const std::string_view line = trimmed(piece);
    if (line.empty()) continue;
    const std::optional<double> number = parse_number<double>(line);
    if (!number) refuse_verdict("a verdict is no number", std::string(line), prompt, verifier);
    numbers.push_back(*number);
  }
  return numbers;
}

const puzzles::ReadRecord& puzzle_of(const Prompt& prompt) {
  LONGHAUL_ASSERT(prompt.puzzle, "prompt {} is no puzzle", prompt.number);
  return *prompt.puzzle;
}

}  // namespace

std::optional<std::string> last_match(const std::string& whole, const std::string& expression) {
  // The library's search calls itself for every character that it takes.
  constexpr size_t kSearched = 4096;
  const std::string text = whole.substr(whole.size() - std::min(whole.size(), kSearched));
  const std::regex pattern(expression);
  std::optional<std::string> last;
  for (auto match = std::sregex_iterator(text.begin(), text.end(), pattern); match != std::sregex_iterator();
       ++match) {
    last = match->size() > 1 ? (*match)[1].str() : (*match)[0].str();
  }
  return last;
}

Judge::Judge(const ReinforceOptions& options) : options_(options) {
  if (!options.http.empty()) http_address(options.http);
  if (options.regex.empty()) return;
  try {
    const std::regex pattern(options.regex);
  } catch (const std::regex_error& error) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "reinforce.regex is no regular expression",
                 .expected = "one of ECMAScript",
                 .found = fmt::format("{}: {}", options.regex, error.what()),
                 .where = "reinforce.regex",
                 .hint = "reinforce.regex='answer: *([0-9]+)'"});
  }
}

std::vector<std::string> Judge::parts() const {
  std::vector<std::string> names;
  for (const RewardPart& part : options_.reward) names.push_back(part.name);
  return names;
}

double Judge::of_text(const std::string& name, const Prompt& prompt, const std::string& text) const {
  if (name == "format") return puzzles::has_strict_format(text) ? 1 : 0;
  if (name == "exact") return trimmed(text) == trimmed(prompt.answer) ? 1 : 0;
  if (name == "prefix") return share_from_the_beginning(trimmed(text), trimmed(prompt.answer));
  if (name == "regex") {
    const auto found = last_match(text, options_.regex);
    return found && trimmed(*found) == trimmed(prompt.answer) ? 1 : 0;
  }
  if (name == "puzzle_answer") {
    const auto payload = puzzles::payload_without_tags(text);
    return payload && puzzles::verdict_on_payload(puzzle_of(prompt), *payload).accepted() ? 1 : 0;
  }
  const puzzles::Score score = puzzles::score_of(text, puzzles::verdict_on(puzzle_of(prompt), text));
  return name == "puzzle_parts" ? score.cascade() : score.reward();
}

std::vector<double> Judge::by_program(const JudgedAnswers& answers) const {
  std::string input;
  for (const std::string& text : answers.texts) {
    const nlohmann::ordered_json line = {{"prompt", answers.prompt->text},
                                         {"response", text},
                                         {"answer", answers.prompt->answer},
                                         {"task", answers.prompt->task}};
    input += line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  // The shell sets the limit, which its children inherit.
  const std::string command =
      fmt::format("ulimit -v {} && {}", options_.verifier_bytes / 1024, options_.program);
  const LimitedResult result = run_limited({.argv = {"/bin/sh", "-c", command},
                                            .input = std::move(input),
                                            .timeout_s = options_.verifier_seconds});
  const std::string verifier = "reinforce.program";
  if (result.timed_out)
    refuse_verdict(
        fmt::format("the verifier took longer than {:g} s and was killed", options_.verifier_seconds),
        options_.program, *answers.prompt, verifier);
  if (result.status != 0)
    refuse_verdict("the verifier failed",
                   fmt::format("exit code {}: {}", result.status, trimmed(result.errors)), *answers.prompt,
                   verifier);
  if (result.left_behind)
    refuse_verdict("the verifier ended and left processes behind, which were killed", options_.program,
                   *answers.prompt, verifier);
  return numbers_in(result.output, *answers.prompt, verifier);
}

std::vector<double> Judge::by_server(const JudgedAnswers& answers) const {
  const size_t count = answers.texts.size();
  const Prompt& prompt = *answers.prompt;
  nlohmann::json extra = {{"prompt", prompt.text}};
  if (prompt.puzzle && prompt.puzzle->columns.contains("extra_info"))
    extra.update(prompt.puzzle->columns["extra_info"]);
  const nlohmann::json body = {{"data_sources", std::vector<std::string>(count, prompt.task)},
                               {"solution_strs", answers.texts},
                               {"ground_truths", std::vector<std::string>(count, prompt.answer)},
                               {"extra_infos", std::vector<nlohmann::json>(count, extra)}};
  const std::string text = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const HttpAnswer answer =
      http_post(http_address(options_.http), text, "application/json", options_.verifier_seconds);
  const std::string verifier = "reinforce.http = " + options_.http;
  if (answer.status != 200)
    refuse_verdict("the verifier refused", fmt::format("{}: {}", answer.status, answer.body), prompt,
                   verifier);
  const nlohmann::json scores = nlohmann::json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  if (!scores.is_object() || !scores.contains("scores") || !scores["scores"].is_array())
    refuse_verdict("the verifier answered something else than {\"scores\": […]}", answer.body, prompt,
                   verifier);
  std::vector<double> numbers;
  for (const nlohmann::json& score : scores["scores"]) {
    if (!score.is_number() && !score.is_boolean())
      refuse_verdict("a verdict is no number", score.dump(), prompt, verifier);
    numbers.push_back(score.is_boolean() ? static_cast<double>(score.get<bool>()) : score.get<double>());
  }
  return numbers;
}

std::vector<double> Judge::numbers_of(const RewardPart& part, const JudgedAnswers& answers) const {
  std::vector<double> numbers;
  if (part.name == "program") {
    numbers = by_program(answers);
  } else if (part.name == "http") {
    numbers = by_server(answers);
  } else {
    for (const std::string& text : answers.texts)
      numbers.push_back(of_text(part.name, *answers.prompt, text));
  }
  if (numbers.size() != answers.texts.size())
    refuse_verdict("the verifier gave another number of verdicts than there are answers",
                   fmt::format("{} for {} answers", numbers.size(), answers.texts.size()), *answers.prompt,
                   "reinforce." + part.name);
  for (const double number : numbers) {
    if (!std::isfinite(number))
      refuse_verdict("a reward is not finite", fmt::format("{}", number), *answers.prompt,
                     "reinforce." + part.name);
  }
  return numbers;
}

std::vector<std::vector<Reward>> Judge::judge(const std::vector<JudgedAnswers>& all) const {
  std::vector<std::vector<Reward>> rewards(all.size());
  parallel_items(std::ssize(all), threads(), [&](const auto& each) {
    each([&](int64_t item) {
      const JudgedAnswers& answers = all[static_cast<size_t>(item)];
      std::vector<Reward>& own = rewards[static_cast<size_t>(item)];
      own.resize(answers.texts.size());
      for (size_t i = 0; i < own.size(); ++i) own[i].formatted = puzzles::has_strict_format(answers.texts[i]);
      for (const RewardPart& part : options_.reward) {
        const std::vector<double> numbers = numbers_of(part, answers);
        for (size_t i = 0; i < own.size(); ++i) {
          own[i].parts.push_back(numbers[i]);
          own[i].sum += part.weight * numbers[i];
        }
      }
    });
  });
  return rewards;
}

}  // namespace longhaul::posttrain
