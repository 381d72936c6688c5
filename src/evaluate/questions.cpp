#include "evaluate/questions.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "base/error.h"
#include "evaluate/words.h"

namespace longhaul::evaluate {
namespace {

constexpr int64_t kSeveral = 4;  // needles of the kinds with several
constexpr int64_t kHops = 4;     // assignments behind the first of "variables"
constexpr int64_t kCommon = 10;
constexpr int64_t kLongList = 8192;  // tokens from which on words repeat more often

// A question with so much text around it; nothing: there is no more of it.
using Build = std::function<Question(int64_t amount)>;

const std::vector<std::string>& noise() {
  static const std::vector<std::string> sentences = {"The grass is green.", "The sky is blue.",
                                                     "The sun is yellow.", "Here we go.",
                                                     "There and back again."};
  return sentences;
}

std::vector<std::string> hay(const QuestionRequest& request, Dice& dice, int64_t count) {
  const auto sentences = request.haystack.empty() ? std::span<const std::string>(noise()) : request.haystack;
  const int64_t begin = request.haystack.empty() ? 0 : dice.below(static_cast<int64_t>(sentences.size()));
  std::vector<std::string> hay;
  for (int64_t i = 0; i < count; ++i)
    hay.push_back(sentences[static_cast<size_t>(begin + i) % sentences.size()]);
  return hay;
}

int64_t place(const QuestionRequest& request, Dice& dice, int64_t count) {
  const int64_t random = dice.below(count + 1);
  return request.depth < 0 ? random : std::llround(request.depth * static_cast<double>(count));
}

// Sentences among others: the i-th stands before sentence at[i].
std::string mixed(const std::vector<std::string>& sentences,
                  const std::vector<std::pair<int64_t, std::string>>& inserted) {
  auto sorted = inserted;
  std::ranges::stable_sort(sorted, {}, &std::pair<int64_t, std::string>::first);
  std::vector<std::string> all;
  size_t next = 0;
  for (size_t i = 0; i <= sentences.size(); ++i) {
    for (; next < sorted.size() && sorted[next].first <= static_cast<int64_t>(i); ++next)
      all.push_back(sorted[next].second);
    if (i < sentences.size()) all.push_back(sentences[i]);
  }
  return fmt::format("{}", fmt::join(all, " "));
}

Question needles(const QuestionRequest& request, int64_t count) {
  Dice dice(request.seed, fmt::format("evaluate/{}/{}", request.kind, request.index));
  const bool several_values = request.kind == "values", all_asked = request.kind == "queries";
  const int64_t total = request.kind == "single" ? 1 : kSeveral;
  const std::vector<std::string> words = different_words(dice, several_values ? 1 : total);
  std::vector<std::pair<int64_t, std::string>> hidden;
  Question question;
  for (int64_t n = 0; n < total; ++n) {
    const std::string number = std::to_string(dice.between(1000000, 9999999));
    const std::string& word = words[several_values ? 0 : static_cast<size_t>(n)];
    const int64_t random = dice.below(count + 1), at = n == 0 ? place(request, dice, count) : random;
    hidden.emplace_back(at, fmt::format("The special magic number for {} is {}.", word, number));
    if (n == 0 || several_values || all_asked) question.answers.push_back(number);
  }
  const bool one = question.answers.size() == 1;
  const std::string of = all_asked ? listed(words) : words.front();
  const std::string subject = fmt::format("special magic number{} for {}", one ? "" : "s", of),
                    is = one ? "is" : "are";
  question.prompt = fmt::format(
      "Some special magic numbers are hidden in the following text. Remember them.\n{}\nQuestion: What {} "
      "the {} in the text?\nAnswer: The {} {}",
      mixed(hay(request, dice, count), hidden), is, subject, subject, is);
  return question;
}

Question rounds(const QuestionRequest& request, int64_t count) {
  Dice dice(request.seed, fmt::format("evaluate/rounds/{}", request.index));
  const int64_t asked = std::min(count - 1, place(request, dice, count - 1));
  const std::vector<std::string> topics = different_words(dice, count);
  Question question;
  for (int64_t r = 0; r < count; ++r) {
    std::vector<std::string> said;
    for (int64_t w = 0; w < 3; ++w) said.push_back(coded_word(dice, 6, 'a'));
    question.prompt += fmt::format("User: Make up three words for {}.\nAssistant: {}.\n",
                                   topics[static_cast<size_t>(r)], listed(said));
    if (r == asked) question.answers = said;
  }
  question.prompt += fmt::format("User: Which three words did you make up for {}?\nAssistant:",
                                 topics[static_cast<size_t>(asked)]);
  return question;
}

Question variables(const QuestionRequest& request, int64_t count) {
  Dice dice(request.seed, fmt::format("evaluate/variables/{}", request.index));
  Question question;
  while (question.answers.size() < kHops + 1) {
    const std::string name = coded_word(dice, 5, 'A');
    if (std::ranges::find(question.answers, name) == question.answers.end()) question.answers.push_back(name);
  }
  const int64_t value = dice.between(10000, 99999);
  std::vector<int64_t> places;
  for (int64_t h = 0; h <= kHops; ++h) places.push_back(dice.below(count + 1));
  std::ranges::sort(places);
  std::vector<std::pair<int64_t, std::string>> assignments;
  for (size_t h = 0; h <= kHops; ++h) {
    const std::string right = h == 0 ? std::to_string(value) : "VAR " + question.answers[h - 1];
    assignments.emplace_back(places[h], fmt::format("VAR {} = {}.", question.answers[h], right));
  }
  question.prompt = fmt::format(
      "Follow the assignments of variables that are hidden in the following text.\n{}\nQuestion: Which "
      "variables have the value {} in the "
      "text?\nAnswer: The {} variables with the value {} are",
      mixed(hay({.kind = "variables"}, dice, count), assignments), value, kHops + 1, value);
  return question;
}

Question common_words(const QuestionRequest& request, int64_t count) {
  Dice dice(request.seed, fmt::format("evaluate/common-words/{}", request.index));
  const bool long_list = request.tokens >= kLongList;
  const std::vector<std::string> words = different_words(dice, kCommon + count);
  Question question{.prompt = {}, .answers = {words.begin(), words.begin() + kCommon}};
  std::vector<std::string> list;
  for (size_t w = 0; w < words.size(); ++w) {
    const bool common = w < static_cast<size_t>(kCommon);
    list.insert(list.end(), common ? (long_list ? 30 : 6) : (long_list ? 3 : 1), words[w]);
  }
  dice.shuffle(list);
  question.prompt = "Some words of this list stand in it more often than others.\n";
  for (size_t i = 0; i < list.size(); ++i) question.prompt += fmt::format("{}. {} ", i + 1, list[i]);
  question.prompt +=
      "\nQuestion: What are the 10 most common words of the list?\nAnswer: The 10 most common words of the "
      "list are";
  return question;
}

Question frequent_words(const QuestionRequest& request, int64_t count) {
  Dice dice(request.seed, fmt::format("evaluate/frequent-words/{}", request.index));
  constexpr double kZeta2 = std::numbers::pi * std::numbers::pi / 6;
  std::vector<std::string> list;
  Question question;
  for (int64_t rank = 1;; ++rank) {
    const auto times =
        static_cast<int64_t>(static_cast<double>(count) / (kZeta2 * static_cast<double>(rank * rank)));
    if (times == 0) break;
    const std::string word = rank == 1 ? "..." : coded_word(dice, 6, 'a');
    if (rank >= 2 && rank <= 4) question.answers.push_back(word);
    list.insert(list.end(), static_cast<size_t>(times), word);
  }
  dice.shuffle(list);
  question.prompt = fmt::format(
      "Count the coded words of the following text; dots are no words. {}\nQuestion: What are the three most "
      "frequent words?\nAnswer: The three "
      "most frequent words are",
      fmt::join(list, " "));
  return question;
}

struct Kind {
  std::string_view name;
  bool needle, ruler;
  int64_t least, most;  // amounts of text
  Question (*make)(const QuestionRequest&, int64_t amount);
};

constexpr int64_t kEndless = int64_t{1} << 26;
const Kind kKinds[] = {{"single", true, true, 1, kEndless, needles},
                       {"keys", true, true, 1, kEndless, needles},
                       {"values", true, true, 1, kEndless, needles},
                       {"queries", true, true, 1, kEndless, needles},
                       {"rounds", true, false, 1, 2304, rounds},
                       {"variables", false, true, 1, kEndless, variables},
                       {"common-words", false, true, 5, 2294, common_words},
                       {"frequent-words", false, true, 60, kEndless, frequent_words}};

std::vector<std::string> kinds_where(bool Kind::*member) {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) {
    if (kind.*member) names.emplace_back(kind.name);
  }
  return names;
}

const Kind& kind_named(const std::string& name) {
  const auto kind = std::ranges::find(kKinds, name, &Kind::name);
  LONGHAUL_ASSERT(kind != std::end(kKinds), "question kind {}", name);
  return *kind;
}

}  // namespace

std::string listed(const std::vector<std::string>& words) {
  if (words.size() == 1) return words.front();
  return fmt::format("{} and {}", fmt::join(words.begin(), words.end() - 1, ", "), words.back());
}

std::vector<std::string> needle_kinds() { return kinds_where(&Kind::needle); }
std::vector<std::string> ruler_kinds() { return kinds_where(&Kind::ruler); }

std::vector<std::string> sentences_of(std::string_view text) {
  std::vector<std::string> sentences;
  std::string sentence;
  const auto end = [&] {
    if (sentence.find_first_not_of(' ') != std::string::npos)
      sentences.push_back(sentence.substr(sentence.find_first_not_of(' ')));
    sentence.clear();
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n' || c == '\r') {
      end();
      continue;
    }
    sentence += c;
    if ((c == '.' || c == '!' || c == '?') && i + 1 < text.size() && text[i + 1] == ' ') end();
  }
  end();
  return sentences;
}

int64_t fewest_tokens(const QuestionRequest& request, const data::Tokenizer& tokenizer) {
  const Kind& kind = kind_named(request.kind);
  return static_cast<int64_t>(tokenizer.encode(kind.make(request, kind.least).prompt).size());
}

Question make_question(const QuestionRequest& request, const data::Tokenizer& tokenizer) {
  const Kind* const kind = &kind_named(request.kind);
  const auto tokens_of = [&](int64_t amount) {
    return static_cast<int64_t>(tokenizer.encode(kind->make(request, amount).prompt).size());
  };
  int64_t fits = kind->least;
  if (const int64_t least = tokens_of(fits); least > request.tokens) {
    throw Error({.code = ExitCode::kUsage,
                 .what = fmt::format("no question of the kind {} is so short", request.kind),
                 .expected = fmt::format("at least {} tokens", least),
                 .found = std::to_string(request.tokens),
                 .where = "--lengths",
                 .hint = "ask for longer ones"});
  }
  int64_t too_many = std::min(kind->most + 1, fits * 2);
  while (too_many <= kind->most && tokens_of(too_many) <= request.tokens)
    fits = too_many, too_many = std::min(kind->most + 1, too_many * 2);
  while (too_many - fits > 1) {
    const int64_t middle = fits + (too_many - fits) / 2;
    (tokens_of(middle) <= request.tokens ? fits : too_many) = middle;
  }
  return kind->make(request, fits);
}

double share_matched(std::string_view output, const std::vector<std::string>& answers) {
  const auto lower = [](std::string_view text) {
    std::string result(text);
    for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return result;
  };
  const std::string said = lower(output);
  const auto found = std::ranges::count_if(
      answers, [&](const std::string& answer) { return said.find(lower(answer)) != std::string::npos; });
  return static_cast<double>(found) / static_cast<double>(answers.size());
}

}  // namespace longhaul::evaluate
