#include "puzzles/second_checkers/checkers.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace longhaul::puzzles {

// By shunting-yard in floating point: exact enough to tell whole targets below a thousand.
bool plain_mathador(const nlohmann::json& given, const std::string& text) {
  std::vector<double> values;
  std::string signs;
  std::vector<int> used;
  const auto rank = [](char c) { return c == '*' || c == '/' ? 2 : c == '+' || c == '-' ? 1 : 0; };
  const auto apply = [&] {
    if (values.size() < 2) return false;
    const double b = values.back(), a = values[values.size() - 2];
    values.resize(values.size() - 2);
    const char sign = signs.back();
    signs.pop_back();
    values.push_back(sign == '+' ? a + b : sign == '-' ? a - b : sign == '*' ? a * b : a / b);
    return true;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ') continue;
    if (c >= '0' && c <= '9') {
      int number = 0;
      for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) number = number * 10 + text[i] - '0';
      --i;
      values.push_back(number);
      used.push_back(number);
    } else if (c == '(') {
      signs += c;
    } else if (c == ')') {
      while (!signs.empty() && signs.back() != '(') {
        if (!apply()) return false;
      }
      if (signs.empty()) return false;
      signs.pop_back();
    } else if (rank(c) > 0) {
      while (!signs.empty() && rank(signs.back()) >= rank(c)) {
        if (!apply()) return false;
      }
      signs += c;
    } else {
      return false;
    }
  }
  while (!signs.empty()) {
    if (signs.back() == '(' || !apply()) return false;
  }
  auto numbers = given["numbers"].get<std::vector<int>>();
  std::ranges::sort(numbers);
  std::ranges::sort(used);
  return values.size() == 1 && numbers == used && std::abs(values[0] - given["result"].get<double>()) < 1e-9;
}

}  // namespace longhaul::puzzles
