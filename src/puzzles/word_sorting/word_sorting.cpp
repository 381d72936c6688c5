#include "puzzles/word_sorting/word_sorting.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/text/text.h"
#include "puzzles/engine/answers/answer.h"
#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/given.h"
#include "puzzles/engine/words/dictionary.h"
#include "puzzles/engine/words/drawn_words.h"

namespace longhaul::puzzles::word_sorting {
namespace {

constexpr Knob kKnobs[] = {{"front", 1, 26, 1, 8, "letters that come first in the new alphabet"},
                           {"words", 4, 60, 5, 30, "words to sort"},
                           {"shared_percent", 0, 100, 0, 60,
                            "percent of the words that begin like another one, with three letters"}};

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  Sorting sorting;
  std::array<char, 26> letters{};
  std::iota(letters.begin(), letters.end(), 'a');
  draw.shuffle(letters);
  sorting.front.assign(letters.begin(), letters.begin() + knobs["front"]);
  sorting.descending = draw.chance(50);
  sorting.words = drawn_words(knobs["words"], knobs["shared_percent"], draw);
  const std::vector<std::string_view> solution = sorted(sorting);
  if (solution == sorting.words) return std::nullopt;  // the prompt would show the answer
  Puzzle puzzle{.given = nlohmann::json::object(), .solution = fmt::format("{}", fmt::join(solution, ", "))};
  puzzle.given["front"] = sorting.front;
  puzzle.given["order"] = sorting.descending ? "descending" : "ascending";
  puzzle.given["words"] = sorting.words;
  return puzzle;
}

// Words between commas, or a list of them. Upper case counts as lower case.
std::optional<std::vector<std::string>> answered_words(std::string_view payload) {
  std::vector<std::string> words;
  if (trimmed(payload).starts_with('[')) {
    const std::optional<Literal> list = read_literal(payload);
    if (!list || !list->is_list()) return std::nullopt;
    for (const Literal& item : list->items) words.push_back(item.text);
  } else {
    words = words_between(payload, ',');
  }
  for (std::string& word : words) {
    for (char& c : word) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
      if (c < 'a' || c > 'z') return std::nullopt;
    }
    if (word.empty()) return std::nullopt;
  }
  return words;
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const Sorting sorting = read_given(given);
  const std::optional<std::vector<std::string>> answer = answered_words(payload);
  if (!answer) return {VerdictCode::kUnreadable, "no words of letters with commas between them"};
  const std::vector<std::string_view> right = sorted(sorting);
  if (std::ranges::equal(*answer, right)) return {};
  std::vector<std::string> have = *answer, wanted(right.begin(), right.end());
  std::ranges::sort(have);
  std::ranges::sort(wanted);
  if (have != wanted) return {VerdictCode::kShape, "it does not hold each given word once and no other"};
  for (size_t i = 0; i < right.size(); ++i) {
    if ((*answer)[i] != right[i])
      return {VerdictCode::kRuleBroken, fmt::format("'{}' is not word {} of the order", (*answer)[i], i + 1)};
  }
  return {};
}

// The same words in another order are the same puzzle.
std::string canonical(const nlohmann::json& given) {
  Sorting sorting = read_given(given);
  std::ranges::sort(sorting.words);
  std::string text = sorting.front + (sorting.descending ? "-" : "+");
  for (const std::string_view word : sorting.words) (text += word) += ',';
  return text;
}

}  // namespace

Sorting read_given(const nlohmann::json& given) {
  const auto is_word = [](const nlohmann::json& text) {
    return text.is_string() && !text.get_ref<const std::string&>().empty() &&
           text.get_ref<const std::string&>().size() <= 40 &&
           std::ranges::all_of(text.get_ref<const std::string&>(),
                               [](char c) { return c >= 'a' && c <= 'z'; });
  };
  const auto refuse = [&] {
    refuse_given(
        kTask.key,
        "\"front\": letters, \"order\": \"ascending\" or \"descending\", and \"words\": words of a to z",
        given);
  };
  const nlohmann::json &front = member_of(given, "front", kTask.key),
                       &order = member_of(given, "order", kTask.key),
                       &words = member_of(given, "words", kTask.key);
  if (!is_word(front) || (order != "ascending" && order != "descending") || !words.is_array() ||
      words.empty() || words.size() > 1000 || !std::ranges::all_of(words, is_word))
    refuse();
  Sorting sorting{front.get<std::string>(), order == "descending", {}};
  sorting.words.reserve(words.size());
  for (const nlohmann::json& word : words) sorting.words.push_back(word.get_ref<const std::string&>());
  const auto all_differ = [](auto parts) {
    std::ranges::sort(parts);
    return std::ranges::adjacent_find(parts) == parts.end();
  };
  if (!all_differ(sorting.front) || !all_differ(sorting.words))
    refuse_given(kTask.key, "letters of \"front\" and words that are all different", given);
  return sorting;
}

std::vector<std::string_view> sorted(const Sorting& sorting) {
  std::array<char, 26> rank{};
  for (size_t letter = 0; letter < 26; ++letter) {
    const size_t in_front = sorting.front.find(static_cast<char>('a' + static_cast<char>(letter)));
    rank[letter] = static_cast<char>(in_front == std::string::npos ? 26 + letter : in_front);
  }
  std::vector<std::string_view> words = sorting.words;
  std::ranges::sort(words, [&](std::string_view a, std::string_view b) {
    const auto differ = std::ranges::mismatch(a, b);
    if (differ.in1 == a.end() || differ.in2 == b.end()) return a.size() < b.size();
    return rank[static_cast<size_t>(*differ.in1 - 'a')] < rank[static_cast<size_t>(*differ.in2 - 'a')];
  });
  if (sorting.descending) std::ranges::reverse(words);
  return words;
}

const TaskEntry kTask = {.key = "word_sorting",
                         .title = "Sort words by a new alphabet",
                         .version = 3,
                         .uniqueness = Uniqueness::kComputed,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = nullptr,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::word_sorting
