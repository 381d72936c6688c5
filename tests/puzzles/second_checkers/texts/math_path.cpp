#include <cstdlib>

#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles {

namespace {

// Replaces the leftmost operation of the highest rank by its value until a number is left, as one does on
// paper.
bool reduce(std::vector<std::string>& tokens) {
  for (size_t open = tokens.size(); open-- > 0;) {
    if (tokens[open] != "(") continue;
    size_t close = open;
    while (tokens[close] != ")") {
      if (++close == tokens.size()) return false;
    }
    std::vector<std::string> inside(tokens.begin() + static_cast<long>(open) + 1,
                                    tokens.begin() + static_cast<long>(close));
    if (!reduce(inside)) return false;
    tokens.erase(tokens.begin() + static_cast<long>(open), tokens.begin() + static_cast<long>(close));
    tokens[open] = inside[0];
  }
  for (const std::string& rank : {std::string("*/%"), std::string("+-")}) {
    for (size_t i = 1; i + 1 < tokens.size();) {
      if (rank.find(tokens[i]) == std::string::npos) {
        i += 2;
        continue;
      }
      const long a = std::atol(tokens[i - 1].c_str()), b = std::atol(tokens[i + 1].c_str());
      const char sign = tokens[i][0];
      if (sign == '/' && (b == 0 || a % b != 0)) return false;
      if (sign == '%' && b <= 0) return false;
      const long value = sign == '*'   ? a * b
                         : sign == '/' ? a / b
                         : sign == '%' ? ((a % b) + b) % b
                         : sign == '+' ? a + b
                                       : a - b;
      tokens[i - 1] = std::to_string(value);
      tokens.erase(tokens.begin() + static_cast<long>(i), tokens.begin() + static_cast<long>(i) + 2);
    }
  }
  return tokens.size() == 1;
}

}  // namespace

bool plain_math_path(const nlohmann::json& given, const std::string& text) {
  std::string query, answer;
  for (const char c : given["query_expr"].get<std::string>()) query += c == ' ' ? "" : std::string(1, c);
  for (const char c : text) answer += c == ' ' ? "" : std::string(1, c);
  if (answer.starts_with("[[") && answer.ends_with("]]")) answer = answer.substr(2, answer.size() - 4);
  if (answer.size() != query.size()) return false;
  std::vector<std::string> tokens;
  for (size_t i = 0; i < query.size(); ++i) {
    if (query[i] == '?' ? std::isdigit(answer[i]) == 0 : query[i] != answer[i]) return false;
  }
  const size_t equals = answer.find('=');
  for (size_t i = 0; i < equals; ++i) tokens.push_back(answer.substr(i, 1));
  return reduce(tokens) && tokens[0] == answer.substr(equals + 1);
}

}  // namespace longhaul::puzzles
