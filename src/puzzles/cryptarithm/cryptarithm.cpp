#include "puzzles/cryptarithm/cryptarithm.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/error.h"
#include "puzzles/engine/given.h"

namespace longhaul::puzzles::cryptarithm {
namespace {

constexpr Knob kKnobs[] = {{"letters", 2, 10, 3, 10, "different letters"},
                           {"operators", 1, 4, 1, 3, "operators on the left side"},
                           {"products", 0, 1, 0, 1, "1: * may come too, beside + and -"}};
constexpr int kTries = 20;  // drawings of digits in one attempt

// An equation of numbers: digits as texts.
struct Numbers {
  std::vector<std::string> operands;
  std::string result;
};

size_t drawn_length(bool factor, Draw& draw) {
  if (factor) return static_cast<size_t>(draw.between(1, 3));
  return static_cast<size_t>(draw.chance(10) ? draw.between(1, 2) : draw.between(3, 6));
}

bool is_factor(const std::string& operators, size_t operand) {
  return (operand > 0 && operators[operand - 1] == '*') ||
         (operand < operators.size() && operators[operand] == '*');
}

// Sums and differences of some digits, drawn a column after the other from the right. Which carries a column
// may pass on so that the columns left of it can still be filled is known beforehand, so that no column is
// drawn in vain.
class Columns {
 public:
  Columns(const std::string& operators, const std::vector<size_t>& lengths, const std::vector<int>& digits)
      : operators_(operators), lengths_(lengths), digits_(digits) {
    for (const int digit : digits) chosen_[static_cast<size_t>(digit)] = true;
    ways_.resize(*std::ranges::max_element(lengths));
    for (size_t column = ways_.size(); column > 0; --column) note_ways(column - 1);
  }
  bool possible() const { return ways_[0].can[kMostCarry]; }

  Numbers drawn(Draw& draw) const {  // where it is possible
    Numbers numbers{.operands = std::vector<std::string>(lengths_.size())};
    int64_t carry = 0;
    for (size_t column = 0; column < ways_.size(); ++column)
      carry = draw_column(column, carry, numbers, draw);
    if (carry > 0) numbers.result += static_cast<char>('0' + carry);
    for (std::string& operand : numbers.operands) std::ranges::reverse(operand);
    std::ranges::reverse(numbers.result);
    return numbers;
  }

 private:
  static constexpr int64_t kMostSum = 45, kMostCarry = 5;  // of the digits of five operands
  using Counts = std::array<uint32_t, 2 * kMostSum + 1>;   // by a sum from -45 to 45
  struct Ways {
    std::vector<Counts> from;  // of the operands from one on to have such a sum in this column
    std::array<bool, 2 * kMostCarry + 1>
        can;  // by a carry from -5 to 5: the columns from here on can be filled
  };
  static size_t place(int64_t sum) { return static_cast<size_t>(sum + kMostSum); }

  int64_t sign(size_t operand) const { return operand > 0 && operators_[operand - 1] == '-' ? -1 : 1; }
  // Whether the operand may have the digit there.
  bool fits(size_t operand, size_t column, int digit) const {
    return digit != 0 || column == 0 || column + 1 != lengths_[operand];
  }
  // What a column passes on; none: no digit of the result, or nothing that the next columns can use.
  std::optional<int64_t> passed(size_t column, int64_t total) const {
    const int64_t digit = (total % 10 + 10) % 10, carry = (total - digit) / 10;
    if (!chosen_[static_cast<size_t>(digit)]) return std::nullopt;
    const bool last = column + 1 == ways_.size();
    const bool can = !last        ? ways_[column + 1].can[static_cast<size_t>(carry + kMostCarry)]
                     : carry == 0 ? digit != 0
                     : carry > 0  ? chosen_[static_cast<size_t>(carry)]
                                  : false;
    return can ? std::optional(carry) : std::nullopt;
  }

  void note_ways(size_t column) {
    Ways& ways = ways_[column];
    ways.from.assign(lengths_.size() + 1, Counts{});
    ways.from.back()[place(0)] = 1;
    int64_t most = 0;  // no sum is larger, with either sign
    for (size_t operand = lengths_.size(); operand > 0; --operand) {
      const Counts& rest = ways.from[operand];
      Counts& here = ways.from[operand - 1];
      if (column >= lengths_[operand - 1]) {
        here = rest;
        continue;
      }
      for (const int digit : digits_) {
        if (!fits(operand - 1, column, digit)) continue;
        const int64_t more = sign(operand - 1) * digit;
        for (int64_t sum = -most; sum <= most; ++sum) here[place(sum + more)] += rest[place(sum)];
      }
      most += 9;
    }
    for (int64_t carry = -kMostCarry; carry <= kMostCarry; ++carry) {
      bool can = false;
      for (int64_t sum = -most; sum <= most && !can; ++sum)
        can = ways.from[0][place(sum)] > 0 && passed(column, carry + sum).has_value();
      ways.can[static_cast<size_t>(carry + kMostCarry)] = can;
    }
  }

  int64_t draw_column(size_t column, int64_t carry, Numbers& numbers, Draw& draw) const {
    const std::vector<Counts>& from = ways_[column].from;
    int64_t sum = drawn_sum(draw, [&](int64_t one) {
      return from[0][place(one)] > 0 && passed(column, carry + one) ? from[0][place(one)] : 0;
    });
    const int64_t total = carry + sum;
    numbers.result += static_cast<char>('0' + (total % 10 + 10) % 10);
    for (size_t operand = 0; operand < lengths_.size(); ++operand) {
      if (column >= lengths_[operand]) continue;
      const int64_t rest = drawn_sum(draw, [&](int64_t one) {
        const int64_t digit = (sum - one) * sign(operand);
        const bool may = digit >= 0 && digit <= 9 && chosen_[static_cast<size_t>(digit)] &&
                         fits(operand, column, static_cast<int>(digit));
        return may ? from[operand + 1][place(one)] : 0;
      });
      numbers.operands[operand] += static_cast<char>('0' + (sum - rest) * sign(operand));
      sum = rest;
    }
    return *passed(column, total);
  }
  // One sum of all, as often as it has ways.
  template <class WaysOf>
  static int64_t drawn_sum(Draw& draw, const WaysOf& ways_of) {
    uint64_t all = 0;
    for (int64_t sum = -kMostSum; sum <= kMostSum; ++sum) all += ways_of(sum);
    uint64_t left = draw.below(all);
    for (int64_t sum = -kMostSum;; ++sum) {
      const uint64_t ways = ways_of(sum);
      if (left < ways) return sum;
      left -= ways;
    }
  }

  const std::string& operators_;
  const std::vector<size_t>& lengths_;
  const std::vector<int>& digits_;
  std::array<bool, 10> chosen_{};
  std::vector<Ways> ways_;
};

// With products: numbers of the chosen digits, taken where the result has no others.
std::optional<Numbers> with_products(const std::string& operators, const std::vector<size_t>& lengths,
                                     const std::vector<int>& digits, Draw& draw) {
  Numbers numbers;
  int64_t sum = 0, product = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    std::string& operand = numbers.operands.emplace_back();
    for (size_t k = 0; k < lengths[i]; ++k) operand += static_cast<char>('0' + draw.pick(digits));
    if (operand.size() > 1 && operand[0] == '0') return std::nullopt;
    if (i > 0 && operators[i - 1] == '*') {
      product *= std::stoll(operand);
      continue;
    }
    sum += product;
    product = (i > 0 && operators[i - 1] == '-' ? -1 : 1) * std::stoll(operand);
  }
  sum += product;
  if (sum <= 0) return std::nullopt;
  numbers.result = std::to_string(sum);
  for (const char c : numbers.result) {
    if (std::ranges::find(digits, c - '0') == digits.end()) return std::nullopt;
  }
  return numbers;
}

// The operands with the operators between them, and the result after the equals sign.
std::string joined(const std::vector<std::string>& operands, const std::string& operators,
                   const std::string& result) {
  std::string text = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) (((text += ' ') += operators[i - 1]) += ' ') += operands[i];
  return (text += " = ") += result;
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  std::string operators;
  for (int64_t i = 0; i < knobs["operators"]; ++i)
    operators += "+-*"[draw.below(knobs["products"] == 1 ? 3 : 2)];
  const bool products = operators.find('*') != std::string::npos;
  std::vector<size_t> lengths;
  for (size_t i = 0; i <= operators.size(); ++i)
    lengths.push_back(drawn_length(is_factor(operators, i), draw));
  std::vector<int> digits(10);
  std::iota(digits.begin(), digits.end(), 0);
  draw.shuffle(digits);
  digits.resize(static_cast<size_t>(knobs["letters"]));
  std::optional<Columns> columns;
  if (!products) columns.emplace(operators, lengths, digits);
  if (columns && !columns->possible()) return std::nullopt;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const std::optional<Numbers> numbers =
        products ? with_products(operators, lengths, digits, draw) : columns->drawn(draw);
    if (!numbers) continue;
    const std::string solution = joined(numbers->operands, operators, numbers->result);
    if (!std::ranges::all_of(digits, [&](int digit) {
          return solution.find(static_cast<char>('0' + digit)) != std::string::npos;
        }))
      continue;
    std::array<char, 26> letters{};
    std::iota(letters.begin(), letters.end(), 'A');
    draw.shuffle(letters);
    std::string text = solution;
    for (char& c : text) {
      if (c >= '0' && c <= '9') c = letters[static_cast<size_t>(c - '0')];
    }
    const std::optional<Equation> equation = read_equation(text);
    SearchBudget budget{.nodes = 100'000};
    if (!equation || solution == kExample || !count_solutions(*equation, 2, budget).unique())
      return std::nullopt;
    Puzzle puzzle{.given = nlohmann::json::object(), .solution = solution};
    puzzle.given["equation"] = text;
    return puzzle;
  }
  return std::nullopt;
}

Equation equation_of(const nlohmann::json& given) {
  std::optional<Equation> equation;
  if (given.is_object() && given.contains("equation") && given["equation"].is_string())
    equation = read_equation(given["equation"].get<std::string>());
  if (!equation)
    refuse_given(kTask.key,
                 "\"equation\": words of A to Z (ten letters at most) with + - * between them, = and a word",
                 given);
  return *equation;
}

// The value of an equation's left side in digits; a product has at most 17 of them.
int64_t value_of(const std::vector<std::string>& operands, const std::string& operators) {
  int64_t sum = 0, product = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    const int64_t number = std::stoll(operands[i]);
    if (i > 0 && operators[i - 1] == '*') {
      product *= number;
    } else {
      sum += product;
      product = i > 0 && operators[i - 1] == '-' ? -number : number;
    }
  }
  return sum + product;
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const Equation equation = equation_of(given);
  std::string plain = joined(equation.words, equation.operators, equation.result), answer(payload);
  const auto is_blank = [](char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; };
  std::erase_if(plain, is_blank);
  std::erase_if(answer, is_blank);
  if (answer.find_first_not_of("0123456789+-*=") != std::string::npos ||
      answer.find('=') == std::string::npos)
    return {VerdictCode::kUnreadable, "no equation of whole numbers with + - * and ="};
  if (answer.size() != plain.size())
    return {VerdictCode::kShape, "it has not as many digits and signs as the puzzle has letters and signs"};
  std::array<char, 26> digit{};
  std::array<char, 10> letter{};
  for (size_t i = 0; i < plain.size(); ++i) {
    const bool is_letter = plain[i] >= 'A' && plain[i] <= 'Z',
               is_digit = answer[i] >= '0' && answer[i] <= '9';
    if (is_letter != is_digit || (!is_letter && plain[i] != answer[i]))
      return {VerdictCode::kShape, fmt::format("'{}' stands where the puzzle has '{}'", answer[i], plain[i])};
    if (!is_letter) continue;
    char &its = digit[static_cast<size_t>(plain[i] - 'A')],
         &back = letter[static_cast<size_t>(answer[i] - '0')];
    if ((its != 0 && its != answer[i]) || (back != 0 && back != plain[i]))
      return {VerdictCode::kRuleBroken,
              fmt::format("{} for {} is not one digit for one letter", answer[i], plain[i])};
    its = answer[i];
    back = plain[i];
  }
  std::vector<std::string> numbers;
  size_t at = 0;
  const auto next_number = [&](const std::string& word) {
    numbers.push_back(answer.substr(at, word.size()));
    at += word.size() + 1;
  };
  for (const std::string& word : equation.words) next_number(word);
  next_number(equation.result);
  for (const std::string& number : numbers) {
    if (number.size() > 1 && number[0] == '0') return {VerdictCode::kRuleBroken, number + " begins with 0"};
  }
  const int64_t result = std::stoll(numbers.back());
  numbers.pop_back();
  const int64_t left = value_of(numbers, equation.operators);
  if (left != result)
    return {VerdictCode::kRuleBroken, fmt::format("the left side makes {}, not {}", left, result)};
  return {};
}

SolutionCount count_of_given(const nlohmann::json& given, int64_t limit, SearchBudget& budget) {
  return count_solutions(equation_of(given), limit, budget);
}

// The letters are renamed in the order in which they come; what is added, and what is multiplied, may stand
// in any order. Of all these texts the one that reads smallest.
std::string canonical(const nlohmann::json& given) {
  const Equation equation = equation_of(given);
  const size_t count = equation.words.size();
  std::vector<size_t> term(count), order(count);
  std::string sign(count, '+');
  for (size_t i = 1; i < count; ++i) {
    const bool factor = equation.operators[i - 1] == '*';
    term[i] = factor ? term[i - 1] : i;
    sign[i] = factor ? sign[i - 1] : equation.operators[i - 1];
  }
  std::iota(order.begin(), order.end(), size_t{0});
  std::string least;
  do {
    std::string text, names;
    bool whole = true;  // the factors of a term stand side by side
    for (size_t k = 0; k < count; ++k) {
      const bool same = k > 0 && term[order[k]] == term[order[k - 1]];
      for (size_t before = 0; !same && before + 1 < k; ++before)
        whole = whole && term[order[before]] != term[order[k]];
      text += same ? '*' : sign[order[k]];
      text += equation.words[order[k]];
    }
    if (!whole) continue;
    text += "=" + equation.result;
    for (char& c : text) {
      if (c < 'A' || c > 'Z') continue;
      if (names.find(c) == std::string::npos) names += c;
      c = static_cast<char>('a' + static_cast<char>(names.find(c)));
    }
    if (least.empty() || text < least) least = text;
  } while (std::ranges::next_permutation(order).found);
  return least;
}

}  // namespace

const TaskEntry kTask = {.key = "cryptarithm",
                         .title = "Cryptarithm: letters for digits",
                         .version = 2,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = count_of_given,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::cryptarithm
