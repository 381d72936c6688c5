#include "puzzles/second_checkers/checkers.h"

#include <map>
#include <regex>

namespace longhaul::puzzles {

// Follows the sentences with a map from people to things; what a sentence claims of owners must be so.
bool plain_goods_exchange(const nlohmann::json& given, const std::string& text) {
  std::map<std::string, std::string> has;
  std::vector<std::string> order;
  bool right = true;
  const auto owner = [&](const std::string& thing) {
    for (const auto& [person, own] : has) {
      if (own == thing) return person;
    }
    right = false;
    return std::string();
  };
  const auto swap = [&](const std::string& a, const std::string& b) { std::swap(has.at(a), has.at(b)); };
  const auto matches = [](const std::string& sentence, const char* form, std::smatch& found) {
    return std::regex_match(sentence, found, std::regex(form));
  };
  bool beginning = false;
  for (const std::string& line : plain_prompt_lines("goods_exchange", given)) {
    std::smatch m;
    if (line == "At the beginning:") beginning = true;
    if (line == "Then:") beginning = false;
    if (beginning && matches(line, "(\\w+) has an? (.*)\\.", m)) {
      has[m[1]] = m[2];
      order.push_back(m[1]);
    }
    const size_t dot = line.find(". ");
    if (dot == std::string::npos || line.find_first_not_of("0123456789") != dot) continue;
    const std::string event = line.substr(dot + 2);
    if (matches(event, "(\\w+) and (\\w+) swap what they have\\.", m)) {
      swap(m[1], m[2]);
    } else if (matches(event, "The owners of the (.*) and the (.*) exchange these two things\\.", m) ||
               matches(event, "Whoever has the (.*) swaps with whoever has the (.*)\\.", m)) {
      swap(owner(m[1]), owner(m[2]));
    } else if (matches(event, "The owner of the (.*) swaps with (\\w+)\\.", m)) {
      swap(owner(m[1]), m[2]);
    } else if (matches(event, "(\\w+) trades the (.*) for the (.*)\\.", m)) {
      right = right && has.at(m[1]) == m[2];
      swap(m[1], owner(m[3]));
    } else if (matches(event, "(\\w+) gives the (.*) to (\\w+), and \\w+ gives the (.*) to \\w+\\.", m) ||
               matches(event, "(\\w+) exchanges the (.*) with (\\w+), for the (.*)\\.", m)) {
      right = right && has.at(m[1]) == m[2] && has.at(m[3]) == m[4];
      swap(m[1], m[3]);
    } else if (matches(event, "(\\w+) swaps with the owner of the (.*)\\.", m)) {
      swap(m[1], owner(m[2]));
    } else if (matches(event,
                       "At the same time (\\w+) gives what they have to (\\w+), \\w+ to (\\w+), and \\w+ to "
                       "\\w+\\.",
                       m)) {
      const std::string first = has.at(m[1]), second = has.at(m[2]), third = has.at(m[3]);
      has[m[2]] = first;
      has[m[3]] = second;
      has[m[1]] = third;
    } else if (!matches(event,
                        "(.*) but (.*) refuses\\.|(.*) likes (.*) very much\\.|(.*) but cannot find it\\.",
                        m)) {
      return false;
    }
  }
  std::string wanted;
  for (const std::string& person : order)
    wanted += (wanted.empty() ? "(('" : ",('") + person + "','" + has.at(person) + "')";
  wanted += ")";
  std::string have = text;
  std::erase(wanted, ' ');
  std::erase(have, ' ');
  return right && have == wanted;
}

}  // namespace longhaul::puzzles
