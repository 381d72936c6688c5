#include "puzzles/grade/benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/json.h"
#include "base/text/path_text.h"
#include "base/text/text.h"
#include "puzzles/engine/answers/answer.h"
#include "puzzles/grade/math_answer.h"
#include "puzzles/records.h"

namespace longhaul::puzzles {
namespace {

constexpr JsonRules kBenchmarkRules = {.code = ExitCode::kData,
                                       .what = "unusable benchmark",
                                       .hint = "docs/puzzles.md#benchmarks lists the fields of each form",
                                       .string_bytes = 8 << 20};

std::string lower(std::string_view text) {
  std::string all(text);
  std::ranges::transform(all, all.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return all;
}

std::string letters_and_digits(std::string_view text) {
  std::string kept;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || static_cast<unsigned char>(c) >= 0x80) kept += c;
  }
  return lower(kept);
}

JsonView view_of(const BenchmarkProblem& problem) {
  return {problem.record, problem.where + ":", kBenchmarkRules};
}

std::string_view after_thought(std::string_view response) {
  constexpr std::string_view kEnd = "</think>";
  const size_t end = response.rfind(kEnd);
  return end == std::string_view::npos ? response : response.substr(end + kEnd.size());
}

// What stands in the last \boxed{…}; none: there is no whole one.
std::optional<std::string> last_boxed(std::string_view text) {
  constexpr std::string_view kBoxed = "\\boxed{";
  for (size_t at = text.rfind(kBoxed); at != std::string_view::npos;
       at = at == 0 ? std::string_view::npos : text.rfind(kBoxed, at - 1)) {
    int64_t depth = 1;
    for (size_t i = at + kBoxed.size(); i < text.size(); ++i) {
      depth += text[i] == '{' ? 1 : text[i] == '}' ? -1 : 0;
      if (depth == 0) return std::string(text.substr(at + kBoxed.size(), i - at - kBoxed.size()));
    }
  }
  return std::nullopt;
}

// Of "[[a]] or [[b]]" a and b.
std::vector<std::string> double_brackets(std::string_view text) {
  std::vector<std::string> all;
  for (size_t at = text.find("[["); at != std::string_view::npos; at = text.find("[[", at)) {
    const size_t end = text.find("]]", at);
    if (end == std::string_view::npos) break;
    all.emplace_back(trimmed(text.substr(at + 2, end - at - 2)));
    at = end + 2;
  }
  return all;
}

Grade yes_or_no(bool right) { return {.answered = true, .share = right ? 1.0 : 0.0}; }

Grade grade_kor_bench(const BenchmarkProblem& problem, std::string_view response) {
  const std::string& told = view_of(problem).at("answer").string();
  std::vector<std::string> wanted = double_brackets(told);
  if (wanted.empty()) wanted.push_back(std::string(trimmed(told)));
  const bool any = told.find("]] or [[") != std::string::npos;
  const std::vector<std::string> all = double_brackets(after_thought(response));
  const size_t count = any ? 1 : wanted.size();
  if (all.size() < count) return {};
  const bool is_puzzle = lower(problem.group) == "puzzle";
  const auto same = [&](const std::string& a, const std::string& b) {
    if (is_puzzle) return !letters_and_digits(a).empty() && letters_and_digits(a) == letters_and_digits(b);
    return lower(trimmed(a)) == lower(trimmed(b)) || same_math_answer(a, b);
  };
  const auto last = all.end() - static_cast<std::ptrdiff_t>(count);
  if (any)
    return yes_or_no(std::ranges::any_of(wanted, [&](const std::string& one) { return same(one, *last); }));
  return yes_or_no(std::equal(wanted.begin(), wanted.end(), last, same));
}

// As both are compared: one line, without stars of emphasis, blanks behind commas and a full stop.
std::string plain_target(std::string_view text) {
  std::string plain = lower(trimmed(text));
  plain = plain.substr(0, plain.find('\n'));
  for (size_t at = plain.find("**"); at != std::string::npos; at = plain.find("**")) plain.erase(at, 2);
  for (size_t at = plain.find(", "); at != std::string::npos; at = plain.find(", ")) plain.erase(at + 1, 1);
  while (plain.size() > 1 && (plain.ends_with('.') || plain.ends_with('?'))) plain.pop_back();
  const auto is_option = [](const std::string& option) {
    return option.size() == 3 && option.front() == '(' && option.back() == ')';
  };
  if (is_option(plain)) plain = plain.substr(1, 1);
  if (plain.size() > 2 && (plain.front() == '\'' || plain.front() == '"') && plain.back() == plain.front())
    plain = plain.substr(1, plain.size() - 2);
  return std::string(trimmed(plain));
}

bool is_number(const std::string& text) {
  return !text.empty() && std::ranges::any_of(text, [](unsigned char c) { return std::isdigit(c) != 0; }) &&
         std::ranges::all_of(
             text, [](unsigned char c) { return std::isdigit(c) != 0 || c == '.' || c == '-' || c == ','; });
}

std::string target_of(const JsonView& view) {
  const JsonView target = view.at("target");
  return target.is_string() ? target.string() : target.value().dump();
}

Grade grade_target(const BenchmarkProblem& problem, bool lenient, std::string_view response) {
  const std::string found = final_answer(response);
  if (found.empty()) return {};
  const std::string wanted = plain_target(target_of(view_of(problem))), answer = plain_target(found);
  if (wanted == answer) return yes_or_no(true);
  if (is_number(wanted) && is_number(answer)) return yes_or_no(same_math_answer(wanted, answer));
  if (!lenient) return yes_or_no(false);
  // Quotes inside, and brackets around the one or the other, do not count.
  const auto without_quotes = [](std::string text) {
    std::erase(text, '\'');
    return text;
  };
  return yes_or_no(without_quotes(wanted) == without_quotes(answer) || "[" + wanted + "]" == answer ||
                   "[" + answer + "]" == wanted);
}

// The last object of JSON that stands in a text.
std::optional<nlohmann::json> last_object(std::string_view text) {
  constexpr size_t kMostTries = 200;
  size_t tries = 0;
  for (size_t end = text.rfind('}'); end != std::string_view::npos && tries < kMostTries;
       end = end == 0 ? end - 1 : text.rfind('}', end - 1)) {
    ++tries;
    int64_t depth = 0;
    for (size_t i = end + 1; i-- > 0;) {
      depth += text[i] == '}' ? 1 : text[i] == '{' ? -1 : 0;
      if (depth > 0 || text[i] != '{') continue;
      auto json = nlohmann::json::parse(text.begin() + static_cast<std::ptrdiff_t>(i),
                                        text.begin() + static_cast<std::ptrdiff_t>(end) + 1, nullptr, false);
      if (json.is_object()) return json;
      break;
    }
  }
  return std::nullopt;
}

std::string cell_text(const nlohmann::json& json) {
  return lower(trimmed(json.is_string() ? json.get<std::string>() : json.dump()));
}

Grade grade_zebra(const BenchmarkProblem& problem, std::string_view response) {
  const JsonView solution = view_of(problem).at("solution");
  const JsonView header = solution.at("header"), rows = solution.at("rows");
  const std::optional<nlohmann::json> answer = last_object(after_thought(response));
  if (!answer) return {};
  const nlohmann::json& houses =
      answer->contains("solution") && (*answer)["solution"].is_object() ? (*answer)["solution"] : *answer;
  int64_t cells = 0, right = 0;
  for (size_t row = 0; row < rows.array_size(); ++row) {
    const std::string house = "House " + cell_text(rows.at(row).at(0).value());
    for (size_t column = 1; column < header.array_size(); ++column) {
      ++cells;
      const std::string& name = header.at(column).string();
      rows.at(row).require(rows.at(row).array_size() == header.array_size(),
                           "as many cells as the header has");
      if (!houses.contains(house) || !houses[house].is_object() || !houses[house].contains(name)) continue;
      right += cell_text(houses[house][name]) == cell_text(rows.at(row).at(column).value()) ? 1 : 0;
    }
  }
  return {.answered = true,
          .share = cells == 0 ? 0 : static_cast<double>(right) / static_cast<double>(cells)};
}

std::string math_truth(const JsonView& view) {
  if (view.has("answer"))
    return view.at("answer").is_string() ? view.at("answer").string() : view.at("answer").value().dump();
  const auto boxed = last_boxed(view.at("solution").string());
  view.require(boxed.has_value(), "\"answer\", or \"solution\" with \\boxed{…}");
  return *boxed;
}

Grade grade_math(const BenchmarkProblem& problem, std::string_view response) {
  const std::string truth = math_truth(view_of(problem));
  const std::string answer = final_answer(response);
  return answer.empty() ? Grade{} : yes_or_no(same_math_answer(answer, truth));
}

// The first of these fields that is there, as text.
std::string group_of(const nlohmann::json& record, const std::string& otherwise) {
  for (const char* key : {"data_source", "category", "question_type", "task", "subject", "size"}) {
    const auto found = record.find(key);
    if (found != record.end() && found->is_string()) return found->get<std::string>();
  }
  return otherwise;
}

}  // namespace

std::vector<std::string> benchmark_formats() {
  return {"puzzles", "kor-bench", "bbh", "bbeh", "zebra-logic", "math"};
}

std::string format_of(const std::vector<BenchmarkProblem>& problems) {
  const nlohmann::json& first = problems.front().record;
  const auto has = [&](const char* key) { return first.contains(key); };
  if (has("data_source") && has("extra_info")) return "puzzles";
  if (has("solution") && first["solution"].is_object() && first["solution"].contains("header"))
    return "zebra-logic";
  if (has("input") && has("target")) return "bbh";
  if (has("answer") && first["answer"].is_string() &&
      first["answer"].get_ref<const std::string&>().starts_with("[["))
    return "kor-bench";
  if ((has("problem") || has("question")) && (has("answer") || has("solution"))) return "math";
  view_of(problems.front())
      .fail("the fields of a benchmark", "none of those that are known; name the form with --format");
}

std::vector<BenchmarkProblem> read_benchmark(const std::filesystem::path& file, const std::string& format) {
  const std::string name = text_of_path(file), text = read_text(file), stem = file.stem().string();
  std::vector<BenchmarkProblem> problems;
  const auto add = [&](nlohmann::json record, std::string where) {
    JsonView(record, where + ":", kBenchmarkRules).require(record.is_object(), "an object");
    problems.push_back({group_of(record, stem), std::move(record), std::move(where)});
  };
  const auto whole = nlohmann::json::parse(text, nullptr, false);
  if (whole.is_array() || (whole.is_object() && whole.contains("examples"))) {
    nlohmann::json checked = parse_json(text, name, kBenchmarkRules);
    nlohmann::json& list = checked.is_array() ? checked : checked["examples"];
    for (size_t i = 0; i < list.size(); ++i) add(std::move(list[i]), fmt::format("{}/{}", name, i));
  } else {
    int64_t number = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line = trimmed(std::string_view(text).substr(at, end - at));
      const std::string where = fmt::format("{}:{}", name, ++number);
      if (!line.empty()) add(parse_json(line, where, kBenchmarkRules), where);
      at = end + 1;
    }
  }
  if (problems.empty())
    throw Error({.code = ExitCode::kData,
                 .what = "unusable benchmark",
                 .expected = "problems",
                 .found = "none",
                 .where = name});
  for (BenchmarkProblem& problem : problems) {
    // What will be asked for is asked for now, so that a bad line is told before anything is graded.
    grade(problem, format.empty() ? format_of(problems) : format, "");
  }
  return problems;
}

std::string final_answer(std::string_view response) {
  if (const auto payload = payload_of(response)) return *payload;
  const std::string_view said = after_thought(response);
  if (const auto boxed = last_boxed(said)) return std::string(trimmed(*boxed));
  const std::string small = lower(said);
  for (const std::string_view phrase : {"answer is", "answer:", "答案是", "答案："}) {
    const size_t at = small.rfind(phrase);
    if (at == std::string::npos) continue;
    std::string_view rest = said.substr(at + phrase.size());
    rest = trimmed(rest.substr(0, rest.find('\n')));
    while (!rest.empty() && (rest.front() == ':' || rest.front() == '*' || rest.front() == ' '))
      rest.remove_prefix(1);
    while (!rest.empty() && rest.back() == '*') rest.remove_suffix(1);
    return std::string(rest);
  }
  return "";
}

Grade grade(const BenchmarkProblem& problem, const std::string& format, std::string_view response) {
  if (format == "puzzles") {
    const Verdict verdict = verdict_on(read_record(problem.record.dump(), problem.where), response);
    return {.answered = verdict.code != VerdictCode::kNoPayload, .share = verdict.accepted() ? 1.0 : 0.0};
  }
  if (format == "kor-bench") return grade_kor_bench(problem, response);
  if (format == "zebra-logic") return grade_zebra(problem, response);
  if (format == "math") return grade_math(problem, response);
  view_of(problem).at("target");
  return grade_target(problem, format == "bbeh", response);
}

}  // namespace longhaul::puzzles
