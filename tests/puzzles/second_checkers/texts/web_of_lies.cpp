#include "puzzles/second_checkers/checkers.h"

#include <functional>
#include <map>

namespace longhaul::puzzles {

namespace {

// What the text says, as rules over people that are looked up by name or place; solved by trying a kind and
// following it.
struct PlainWeb {
  std::map<std::string, std::string> at;  // "the person at the park" → "Alice"
  std::vector<std::string> sentences, asked;
  using Kinds = std::map<std::string, bool>;
  struct Rule {
    std::vector<std::string> people;
    std::function<bool(const std::vector<bool>&)> holds;
  };
  std::vector<Rule> rules;

  std::string who(std::string text) const {
    if (text.starts_with("The ")) text[0] = 't';
    const auto found = at.find(text);
    return found == at.end() ? text : found->second;
  }

  void read(const std::string& sentence) {
    const auto cut = [&](const char* text, std::string& before, std::string& after) {
      const size_t place = sentence.find(text);
      if (place == std::string::npos) return false;
      before = sentence.substr(0, place);
      after = sentence.substr(place + std::string(text).size());
      return true;
    };
    std::string a, b;
    const auto pair = [](const std::string& text, const std::string& end) {
      const std::string both = text.substr(0, text.size() - end.size());
      const size_t place = both.find(" and ");
      return std::pair(both.substr(0, place), both.substr(place + 5));
    };
    if (cut(" says that at least one of ", a, b)) {
      const auto [x, y] = pair(b, " tells the truth.");
      rules.push_back({{who(a), who(x), who(y)}, [](const auto& k) { return k[0] == (k[1] || k[2]); }});
    } else if (cut(" says that both ", a, b)) {
      const auto [x, y] = pair(b, " lie.");
      rules.push_back({{who(a), who(x), who(y)}, [](const auto& k) { return k[0] == (!k[1] && !k[2]); }});
    } else if (cut(" says: ", a, b)) {
      const bool opposite = b.ends_with(" is not of my kind.");
      const std::string x = b.substr(0, b.find(opposite ? " is not of my kind." : " is of my kind."));
      rules.push_back(
          {{who(a), who(x)}, [opposite](const auto& k) { return k[0] == ((k[0] == k[1]) != opposite); }});
    } else if (cut(" says that ", a, b)) {
      const bool truth = b.ends_with(" tells the truth.");
      const std::string x = b.substr(0, b.find(truth ? " tells the truth." : " lies."));
      rules.push_back({{who(a), who(x)}, [truth](const auto& k) { return k[0] == (k[1] == truth); }});
    } else if (cut(" tells the truth.", a, b)) {
      rules.push_back({{who(a)}, [](const auto& k) { return k[0]; }});
    } else if (cut(" lies.", a, b)) {
      rules.push_back({{who(a)}, [](const auto& k) { return !k[0]; }});
    }
  }

  // Whether some kinds hold all rules, beginning with those in `kinds`.
  bool fits(Kinds kinds) const {
    for (bool more = true; more;) {
      more = false;
      for (const Rule& rule : rules) {
        std::vector<std::string> open;
        for (const std::string& one : rule.people) {
          if (!kinds.contains(one)) open.push_back(one);
        }
        if (open.size() > 1) continue;
        const auto holds = [&] {
          std::vector<bool> values;
          for (const std::string& one : rule.people) values.push_back(kinds.at(one));
          return rule.holds(values);
        };
        if (open.empty()) {
          if (!holds()) return false;
          continue;
        }
        kinds[open[0]] = true;
        const bool can_tell_truth = holds();
        kinds[open[0]] = false;
        const bool can_lie = holds();
        if (!can_tell_truth && !can_lie) return false;
        kinds.erase(open[0]);
        if (can_tell_truth && can_lie) continue;
        kinds[open[0]] = can_tell_truth;
        more = true;
      }
    }
    for (const Rule& rule : rules) {
      for (const std::string& one : rule.people) {
        if (kinds.contains(one)) continue;
        for (const bool kind : {true, false}) {
          Kinds next = kinds;
          next[one] = kind;
          if (fits(std::move(next))) return true;
        }
        return false;
      }
    }
    return true;
  }
};

}  // namespace

bool plain_web_of_lies(const nlohmann::json& given, const std::string& text) {
  PlainWeb web;
  const std::string question = "Question: Do these people tell the truth? ";
  for (const std::string& line : plain_prompt_lines("web_of_lies", given)) {
    const size_t at = line.find(" is at the ");
    if (at != std::string::npos && line.ends_with('.'))
      web.at["the person at the " + line.substr(at + 11, line.size() - at - 12)] = line.substr(0, at);
    if (line.starts_with(question))
      web.asked = plain_words(line.substr(question.size(), line.size() - question.size() - 1), ';');
    if (!line.starts_with("Rules:") && !line.starts_with("Each person")) web.sentences.push_back(line);
  }
  for (const std::string& sentence : web.sentences) web.read(sentence);
  const std::vector<std::string> answers = plain_words(text, ',');
  if (answers.size() != web.asked.size()) return false;
  for (size_t i = 0; i < answers.size(); ++i) {
    if (answers[i] != "yes" && answers[i] != "no") return false;
    const bool yes = answers[i] == "yes";
    if (!web.fits({{web.who(web.asked[i]), yes}}) || web.fits({{web.who(web.asked[i]), !yes}})) return false;
  }
  return true;
}

}  // namespace longhaul::puzzles
