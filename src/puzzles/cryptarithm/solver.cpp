#include <algorithm>
#include <array>

#include "puzzles/cryptarithm/cryptarithm.h"

namespace longhaul::puzzles::cryptarithm {
namespace {

constexpr size_t kMostColumns = 17;  // digits of a sum or product; 10^17 times five operands fits in 64 bits

constexpr std::array<int64_t, kMostColumns + 1> kPowers = [] {
  std::array<int64_t, kMostColumns + 1> powers = {1};
  for (size_t i = 1; i < powers.size(); ++i) powers[i] = powers[i - 1] * 10;
  return powers;
}();

// Letters get digits in the order of the columns in which they stand, from the right. Once all letters of the
// k columns at the right have one, both sides must agree modulo 10^k; that holds for products too. A letter
// of the result that is the last open one of its column is computed, not tried.
class Search {
 public:
  Search(const Equation& equation, int64_t limit, SearchBudget& budget)
      : equation_(equation), limit_(limit), budget_(budget) {
    digit_.fill(-1);
    for (const std::string& word : equation.words) columns_ = std::max(columns_, word.size());
    columns_ = std::max(columns_, equation.result.size());
    for (const std::string& word : equation.words) note_first_letter(word);
    note_first_letter(equation.result);
  }

  SolutionCount count() {
    column(0);
    return {found_, !budget_.spent()};
  }

 private:
  static size_t index_of(char letter) { return static_cast<size_t>(letter - 'A'); }
  void note_first_letter(const std::string& word) {
    if (word.size() > 1) not_zero_[index_of(word[0])] = true;
  }

  // The value of a word's `count` digits at the right.
  int64_t tail_of(const std::string& word, size_t count) const {
    int64_t value = 0;
    for (size_t i = word.size() - std::min(count, word.size()); i < word.size(); ++i)
      value = value * 10 + digit_[index_of(word[i])];
    return value;
  }

  // The left side of the equation with that many digits of each word; modulo `modulus` where it is not 0.
  int64_t left_side(size_t count, int64_t modulus) const {
    int64_t sum = 0;
    for (size_t i = 0; i < equation_.words.size();) {
      const bool minus = i > 0 && equation_.operators[i - 1] == '-';
      __extension__ __int128 product = tail_of(equation_.words[i++], count);
      for (; i < equation_.words.size() && equation_.operators[i - 1] == '*'; ++i) {
        product *= tail_of(equation_.words[i], count);
        if (modulus != 0) product %= modulus;
      }
      sum += minus ? -static_cast<int64_t>(product) : static_cast<int64_t>(product);
    }
    return modulus == 0 ? sum : (sum % modulus + modulus) % modulus;
  }

  bool column(size_t at) {  // false: stop
    if (at == columns_) {
      if (left_side(columns_, 0) != tail_of(equation_.result, columns_)) return true;
      return ++found_ < limit_;
    }
    std::string open;
    for (const std::string& word : equation_.words) {
      if (at >= word.size()) continue;
      const char letter = word[word.size() - 1 - at];
      if (digit_[index_of(letter)] < 0 && open.find(letter) == std::string::npos) open += letter;
    }
    return letters(at, open, 0);
  }

  bool letters(size_t at, const std::string& open, size_t next) {
    if (!budget_.spend()) return false;
    if (next == open.size()) return result_letter(at);
    for (int digit = 0; digit < 10; ++digit) {
      if (!put(open[next], digit)) continue;
      const bool go_on = letters(at, open, next + 1);
      take(open[next]);
      if (!go_on) return false;
    }
    return true;
  }

  // All letters of the operands in this column have digits: the result's digit is known.
  bool result_letter(size_t at) {
    const int64_t modulus = kPowers[at + 1];
    const int64_t wanted = left_side(at + 1, modulus);
    if (at >= equation_.result.size())
      return wanted == tail_of(equation_.result, at + 1) ? column(at + 1) : true;
    const char letter = equation_.result[equation_.result.size() - 1 - at];
    if (digit_[index_of(letter)] >= 0)
      return wanted == tail_of(equation_.result, at + 1) ? column(at + 1) : true;
    if (!put(letter, static_cast<int>(wanted / (modulus / 10)))) return true;
    const bool go_on = wanted == tail_of(equation_.result, at + 1) ? column(at + 1) : true;
    take(letter);
    return go_on;
  }

  bool put(char letter, int digit) {
    if (used_[static_cast<size_t>(digit)] || (digit == 0 && not_zero_[index_of(letter)])) return false;
    used_[static_cast<size_t>(digit)] = true;
    digit_[index_of(letter)] = digit;
    return true;
  }
  void take(char letter) {
    used_[static_cast<size_t>(digit_[index_of(letter)])] = false;
    digit_[index_of(letter)] = -1;
  }

  const Equation& equation_;
  int64_t limit_;
  SearchBudget& budget_;
  size_t columns_ = 0;
  std::array<int, 26> digit_{};
  std::array<bool, 26> not_zero_{};
  std::array<bool, 10> used_{};
  int64_t found_ = 0;
};

bool is_word(std::string_view text) {
  return !text.empty() && text.size() <= kMostColumns &&
         std::ranges::all_of(text, [](char c) { return c >= 'A' && c <= 'Z'; });
}

}  // namespace

std::optional<Equation> read_equation(std::string_view text) {
  Equation equation;
  std::string word;
  bool result = false;
  for (const char c : text) {
    if (c == ' ') continue;
    if (std::string_view("+-*=").find(c) == std::string_view::npos) {
      word += c;
      continue;
    }
    if (result || !is_word(word)) return std::nullopt;
    equation.words.push_back(std::exchange(word, ""));
    if (c == '=') {
      result = true;
    } else {
      equation.operators += c;
    }
  }
  if (!result || !is_word(word) || equation.words.size() > 5) return std::nullopt;
  equation.result = word;
  std::string letters;
  size_t digits = 0;
  for (size_t i = 0; i < equation.words.size(); ++i) {
    letters += equation.words[i];
    digits = i > 0 && equation.operators[i - 1] == '*' ? digits + equation.words[i].size()
                                                       : equation.words[i].size();
    if (digits > kMostColumns) return std::nullopt;
  }
  letters += equation.result;
  std::ranges::sort(letters);
  letters.erase(std::unique(letters.begin(), letters.end()), letters.end());
  if (letters.size() > 10) return std::nullopt;
  return equation;
}

SolutionCount count_solutions(const Equation& equation, int64_t limit, SearchBudget& budget) {
  return Search(equation, limit, budget).count();
}

}  // namespace longhaul::puzzles::cryptarithm
