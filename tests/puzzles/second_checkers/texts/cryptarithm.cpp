#include <map>
#include <set>

#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles {

// Letter by letter against the equation without blanks, then the sum term by term in long double: exact below
// 2^64.
bool plain_cryptarithm(const nlohmann::json& given, const std::string& text) {
  std::string letters, digits;
  for (const char c : given["equation"].get<std::string>()) letters += c == ' ' ? "" : std::string(1, c);
  for (const char c : text) digits += c == ' ' ? "" : std::string(1, c);
  if (letters.size() != digits.size()) return false;
  std::map<char, std::set<char>> there, back;
  long double total = 0, term = 1, sign = 1, number = 0;
  for (size_t i = 0; i < letters.size(); ++i) {
    if (std::isupper(letters[i]) == 0) {
      if (digits[i] != letters[i]) return false;
      term *= number;
      number = 0;
      if (digits[i] == '*') continue;
      total += sign * term;
      term = 1;
      sign = digits[i] == '-' ? -1 : 1;
      if (digits[i] == '=') term = 0;  // the number after it is the result
      continue;
    }
    if (std::isdigit(digits[i]) == 0) return false;
    const bool first = i == 0 || std::isupper(letters[i - 1]) == 0;
    const bool more = i + 1 < letters.size() && std::isupper(letters[i + 1]) != 0;
    if (first && more && digits[i] == '0') return false;
    there[letters[i]].insert(digits[i]);
    back[digits[i]].insert(letters[i]);
    number = number * 10 + (digits[i] - '0');
  }
  for (const auto& [letter, its] : there) {
    if (its.size() != 1) return false;
  }
  for (const auto& [digit, its] : back) {
    if (its.size() != 1) return false;
  }
  return total == number;
}

}  // namespace longhaul::puzzles
