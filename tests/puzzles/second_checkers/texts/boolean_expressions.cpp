#include "puzzles/second_checkers/checkers.h"

#include <cmath>
#include <set>

#include "puzzles/boolean_expressions/facts.h"

namespace longhaul::puzzles {

namespace {

const std::set<std::string>& plain_true_sentences() {
  static const std::set<std::string> all = [] {
    std::set<std::string> made;
    for (int64_t relation = 0; relation < 4; ++relation) {
      for (int64_t subject = 0; subject < boolean_expressions::fact_counts()[static_cast<size_t>(relation)];
           ++subject)
        made.insert(boolean_expressions::sentence_of({relation, subject, subject}, Language::kEnglish));
    }
    return made;
  }();
  return all;
}

// Reads an option as a person does, from the text: everything is a number (True is 1, False 0), in floating
// point.
class PlainExpression {
 public:
  explicit PlainExpression(std::string text) : text_(std::move(text)) {}
  bool is_true() { return joined() != 0; }
  bool ended() {
    blanks();
    return at_ == text_.size();
  }

 private:
  void blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(const std::string& word) {
    blanks();
    if (text_.compare(at_, word.size(), word) != 0) return false;
    at_ += word.size();
    return true;
  }
  double joined() {
    double value = compared();
    for (;;) {
      if (take("and ")) {
        const double other = compared();
        value = value != 0 && other != 0;
      } else if (take("or ")) {
        const double other = compared();
        value = value != 0 || other != 0;
      } else {
        return value;
      }
    }
  }
  double compared() {
    if (take("not ")) return compared() == 0;
    const double a = sum();
    const auto difference = [&] { return a - sum(); };
    constexpr double kNone = 1e-9;
    if (take("<= ") || take("is at most ")) return difference() < kNone;
    if (take(">= ") || take("is at least ")) return difference() > -kNone;
    if (take("< ") || take("is less than ")) return difference() < -kNone;
    if (take("> ") || take("is greater than ")) return difference() > kNone;
    if (take("== ") || take("equals ")) return std::abs(difference()) < kNone;
    if (take("!= ") || take("is different from ")) return std::abs(difference()) > kNone;
    return a;
  }
  double sum() {
    double value = product();
    for (;;) {
      if (take("+ ")) {
        value += product();
      } else if (take("- ")) {
        value -= product();
      } else {
        return value;
      }
    }
  }
  double product() {
    double value = single();
    for (;;) {
      if (take("* ")) {
        value *= single();
      } else if (take("/ ")) {
        value /= single();
      } else {
        return value;
      }
    }
  }
  double single() {
    if (take("True")) return 1;
    if (take("False")) return 0;
    if (take("(")) {
      const double value = joined();
      return take(")") ? value : std::nan("");
    }
    if (text_[at_] == '-' || (text_[at_] >= '0' && text_[at_] <= '9')) {
      size_t used = 0;
      const int number = std::stoi(text_.substr(at_), &used);
      at_ += used;
      return number;
    }
    const size_t end = std::min(text_.find(')', at_), text_.size());
    const std::string sentence = text_.substr(at_, end - at_);
    at_ = end;
    return plain_true_sentences().contains(sentence);
  }

  std::string text_;
  size_t at_ = 0;
};

}  // namespace

bool plain_boolean_expressions(const nlohmann::json& given, const std::string& text) {
  std::set<std::string> wanted, have;
  for (const std::string& line : plain_prompt_lines("boolean_expressions", given)) {
    if (line.size() < 4 || line[0] < 'A' || line[0] > 'L' || line.substr(1, 2) != ". ") continue;
    PlainExpression expression(line.substr(3));
    if (expression.is_true()) wanted.insert(line.substr(0, 1));
    if (!expression.ended()) return false;
  }
  for (const std::string& word : plain_words(text, ',')) have.insert(word);
  return have == wanted && !wanted.empty();
}

}  // namespace longhaul::puzzles
