#include "puzzles/mathador/mathador.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "puzzles/engine/answers/answer.h"
#include "puzzles/engine/answers/arithmetic.h"
#include "puzzles/engine/given.h"

namespace longhaul::puzzles::mathador {
namespace {

constexpr size_t kMostNumbers = 6;
constexpr Knob kKnobs[] = {{"numbers", 2, kMostNumbers, 3, 6, "how many numbers are given"},
                           {"largest", 4, 100, 9, 25, "largest that may be given"},
                           {"least_target", 1, 1000, 24, 20, "least target"},
                           {"largest_target", 1, 1000, 24, 100, "largest target"}};

// Two of what has been made become one, in every way, until one is left. Values alone are carried along; the
// text is written once one of them is right.
class Search {
 public:
  Search(const std::vector<int64_t>& numbers, int64_t target) : target_{target, 1} {
    for (const int64_t number : numbers) made_.push_back({.value = {number, 1}});
  }

  std::optional<std::string> run() {
    std::array<int, 2 * kMostNumbers> left{};
    for (size_t i = 0; i < made_.size(); ++i) left[i] = static_cast<int>(i);
    made_.reserve(2 * made_.size());
    if (!combine(left, made_.size())) return std::nullopt;
    return text_of(static_cast<int>(made_.size()) - 1);
  }

 private:
  struct Made {
    Rational value;
    char sign = 0;  // 0: a given number
    int a = 0, b = 0;
  };

  bool combine(std::array<int, 2 * kMostNumbers>& left, size_t count) {
    if (count == 1) return made_[static_cast<size_t>(left[0])].value == target_;
    for (size_t i = 0; i < count; ++i) {
      for (size_t j = i + 1; j < count; ++j) {
        const int a = left[i], b = left[j];
        std::array<int, 2 * kMostNumbers> rest{};
        size_t kept = 0;
        for (size_t k = 0; k < count; ++k) {
          if (k != i && k != j) rest[kept++] = left[k];
        }
        rest[kept] = static_cast<int>(made_.size());
        if (joined('+', a, b, rest, kept + 1) || joined('*', a, b, rest, kept + 1) ||
            joined('-', a, b, rest, kept + 1) || joined('-', b, a, rest, kept + 1) ||
            joined('/', a, b, rest, kept + 1) || joined('/', b, a, rest, kept + 1))
          return true;
      }
    }
    return false;
  }

  bool joined(char sign, int a, int b, std::array<int, 2 * kMostNumbers>& rest, size_t count) {
    const Rational &x = made_[static_cast<size_t>(a)].value, &y = made_[static_cast<size_t>(b)].value;
    const std::optional<Rational> value = sign == '+'   ? added(x, y)
                                          : sign == '-' ? subtracted(x, y)
                                          : sign == '*' ? multiplied(x, y)
                                                        : divided(x, y);
    if (!value) return false;
    made_.push_back({*value, sign, a, b});
    if (combine(rest, count)) return true;
    made_.pop_back();
    return false;
  }

  std::string text_of(int which, bool bracketed = false) const {
    const Made& made = made_[static_cast<size_t>(which)];
    if (made.sign == 0) return std::to_string(made.value.above);
    const bool product = made.sign == '*' || made.sign == '/';
    const auto is = [&](int part, const char* signs) {
      return std::string_view(signs).find(made_[static_cast<size_t>(part)].sign) != std::string_view::npos;
    };
    const std::string text = fmt::format(
        "{} {} {}", text_of(made.a, product && is(made.a, "+-")), made.sign,
        text_of(made.b, made.sign == '/' ? is(made.b, "+-*/") : made.sign != '+' && is(made.b, "+-")));
    return bracketed ? "(" + text + ")" : text;
  }

  Rational target_;
  std::vector<Made> made_;
};

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  const int64_t least = knobs["least_target"], most = knobs["largest_target"];
  if (least > most)
    throw Error({.code = ExitCode::kUsage,
                 .what = "the targets of mathador cannot be so",
                 .expected = "least_target up to largest_target",
                 .found = fmt::format("{} and {}", least, most)});
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < knobs["numbers"]; ++i) numbers.push_back(draw.between(1, knobs["largest"]));
  const int64_t target = draw.between(least, most);
  const std::optional<std::string> solution = solve(numbers, target);
  if (!solution) return std::nullopt;
  return Puzzle{.given = {{"numbers", numbers}, {"operators", {"+", "-", "*", "/"}}, {"result", target}},
                .solution = *solution};
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const Given puzzle = read_given(given);
  const std::optional<Arithmetic> answer = read_arithmetic(payload);
  if (!answer)
    return {VerdictCode::kUnreadable,
            "no expression of whole numbers, + - * / and parentheses that has a value"};
  std::vector<int64_t> have = answer->numbers, wanted = puzzle.numbers;
  std::ranges::sort(have);
  std::ranges::sort(wanted);
  if (have != wanted) return {VerdictCode::kShape, "it does not use each given number once and no other"};
  if (answer->value != Rational{puzzle.result, 1})
    return {VerdictCode::kRuleBroken,
            fmt::format("it makes {}, not {}", text_of(answer->value), puzzle.result)};
  return {};
}

std::string canonical(const nlohmann::json& given) {
  Given puzzle = read_given(given);
  std::ranges::sort(puzzle.numbers);
  return fmt::format("{}={}", fmt::join(puzzle.numbers, ","), puzzle.result);
}

}  // namespace

Given read_given(const nlohmann::json& given) {
  const auto is_number = [](const nlohmann::json& each) {
    return each.is_number_integer() && each.get<int64_t>() >= 0 && each.get<int64_t>() <= 1'000'000;
  };
  if (!given.is_object() || !given.contains("numbers") || !given["numbers"].is_array() ||
      given["numbers"].empty() || given["numbers"].size() > 2 * kMostNumbers ||
      !std::ranges::all_of(given["numbers"], is_number) || !given.contains("result") ||
      !is_number(given["result"]))
    refuse_given(kTask.key, "\"numbers\": whole numbers, and \"result\": one", given);
  return {given["numbers"].get<std::vector<int64_t>>(), given["result"].get<int64_t>()};
}

std::optional<std::string> solve(const std::vector<int64_t>& numbers, int64_t target) {
  return Search(numbers, target).run();
}

const TaskEntry kTask = {.key = "mathador",
                         .title = "Mathador (the game of 24)",
                         .version = 2,
                         .uniqueness = Uniqueness::kAny,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = nullptr,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::mathador
