#include "puzzles/dyck_language_reasoning_errors/dyck_language_reasoning_errors.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/text/text.h"
#include "puzzles/dyck_language/dyck_language.h"
#include "puzzles/engine/answers/answer.h"
#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/given.h"

namespace longhaul::puzzles::dyck_language_reasoning_errors {
namespace {

using dyck_language::kClosers;
using dyck_language::kOpeners;
using dyck_language::open_brackets;

constexpr int64_t kRightPercent = 10;  // of the traces have no error
constexpr size_t kMostLines = 1000;
constexpr std::string_view kNone = "none", kNoneInChinese = "无";
constexpr Knob kKnobs[] = {{"kinds", 1, 4, 2, 4, "kinds of brackets"},
                           {"length", 4, 120, 8, 40, "brackets (made even)"},
                           {"errors", 1, 20, 1, 5, "most wrong lines; one trace of ten has none"}};

char other_opener(char opener, int64_t kinds, Draw& draw) {
  const size_t kind = kOpeners.find(opener);
  return kOpeners[(kind + 1 + draw.below(static_cast<uint64_t>(kinds - 1))) % static_cast<uint64_t>(kinds)];
}

// A stack as somebody may take it to be after `bracket`, other than it is.
std::string spoilt_stack(const std::string& stack, char bracket, int64_t kinds, Draw& draw) {
  std::string spoilt = stack;
  const size_t closed = kClosers.find(bracket);
  switch (draw.below(4)) {
    case 0:  // the top is lost, and the one under it taken for another
      if (stack.size() > 1 && kinds > 1) {
        spoilt.pop_back();
        spoilt.back() = other_opener(spoilt.back(), kinds, draw);
      }
      break;
    case 1:  // what was closed stays
      if (closed != std::string_view::npos) spoilt += kOpeners[closed];
      break;
    case 2:
      if (!stack.empty() && kinds > 1) {
        char& one = spoilt[draw.below(stack.size())];
        one = other_opener(one, kinds, draw);
      }
      break;
    default:
      spoilt += kOpeners[draw.below(static_cast<uint64_t>(kinds))];
  }
  if (spoilt == stack) spoilt += kOpeners[draw.below(static_cast<uint64_t>(kinds))];
  return spoilt;
}

std::string text_of_lines(const std::vector<int64_t>& lines) {
  return lines.empty() ? std::string(kNone) : fmt::format("{}", fmt::join(lines, ","));
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  const int64_t length = (knobs["length"] + 1) / 2 * 2, kinds = knobs["kinds"];
  const std::string sequence = dyck_language::random_prefix(kinds, length, 0, draw);
  std::vector<std::string> stacks;
  for (size_t i = 1; i <= sequence.size(); ++i) stacks.push_back(*open_brackets(sequence.substr(0, i)));
  bool says_empty = true;
  std::vector<size_t> places(sequence.size() + 1);  // the last is the closing line
  std::iota(places.begin(), places.end(), 0);
  draw.shuffle(places);
  const int64_t errors = draw.chance(kRightPercent) ? 0 : draw.between(1, std::min(knobs["errors"], length));
  std::vector<int64_t> spoilt;
  for (int64_t i = 0; i < errors; ++i) {
    const size_t place = places[static_cast<size_t>(i)];
    spoilt.push_back(static_cast<int64_t>(place) + 3);
    if (place == sequence.size()) {
      says_empty = false;
    } else {
      stacks[place] = spoilt_stack(stacks[place], sequence[place], kinds, draw);
    }
  }
  std::ranges::sort(spoilt);
  const std::vector<int64_t> wrong = wrong_lines(sequence, stacks, says_empty);
  LONGHAUL_ASSERT(wrong == spoilt, "{}", sequence);
  return Puzzle{.given = {{"sequence", sequence},
                          {"stacks", stacks},
                          {"says_empty", says_empty},
                          {"error_indices", wrong}},
                .solution = text_of_lines(wrong)};
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  std::set<int64_t> wanted, lines;
  for (const nlohmann::json& line :
       list_of(member_of(given, "error_indices", kTask.key), 0, kMostLines, "\"error_indices\"", kTask.key))
    wanted.insert(integer_of(line, 1, kMostLines, "a line", kTask.key));
  const std::string_view text = trimmed(payload);
  // Public data writes nothing at all where there are none.
  const bool none =
      text.empty() || text == kNone || text == kNoneInChinese || text == "None" || text == "NONE";
  for (const std::string& word : none ? std::vector<std::string>() : words_between(text, ',')) {
    const std::optional<int64_t> line = read_integer(word);
    if (!line)
      return {VerdictCode::kUnreadable, "not numbers of lines, separated by commas, and not the word none"};
    lines.insert(*line);
  }
  for (const int64_t line : lines) {
    if (!wanted.contains(line)) return {VerdictCode::kRuleBroken, fmt::format("line {} is right", line)};
  }
  if (lines.size() != wanted.size())
    return {VerdictCode::kRuleBroken,
            fmt::format("{} wrong lines are missing", wanted.size() - lines.size())};
  return {};
}

std::string canonical(const nlohmann::json& given) {
  // Kinds are names: in the order in which they first open.
  const Trace trace = read_trace(given);
  std::string text = trace.sequence, names;
  for (const char c : text) {
    if (kOpeners.find(c) != std::string_view::npos && names.find(c) == std::string::npos) names += c;
  }
  text += fmt::format("/{}/{}", fmt::join(trace.stacks, "/"), trace.says_empty);
  for (const char c : kOpeners) {
    if (names.find(c) == std::string::npos) names += c;  // one that stands in a wrong stack alone
  }
  for (char& c : text) {
    const size_t opener = kOpeners.find(c), closer = kClosers.find(c);
    if (opener != std::string_view::npos) c = kOpeners[names.find(c)];
    if (closer != std::string_view::npos) c = kClosers[names.find(kOpeners[closer])];
  }
  return text;
}

Puzzle told_in(Puzzle puzzle, Language language) {
  if (language == Language::kChinese && puzzle.solution == kNone) puzzle.solution = kNoneInChinese;
  return puzzle;
}

}  // namespace

std::vector<int64_t> wrong_lines(std::string_view sequence, const std::vector<std::string>& stacks,
                                 bool says_empty) {
  std::vector<int64_t> wrong;
  for (size_t i = 0; i < stacks.size(); ++i) {
    if (open_brackets(sequence.substr(0, i + 1)) != stacks[i]) wrong.push_back(static_cast<int64_t>(i) + 3);
  }
  if (says_empty != (open_brackets(sequence) == std::string()))
    wrong.push_back(static_cast<int64_t>(stacks.size()) + 3);
  return wrong;
}

Trace read_trace(const nlohmann::json& given) {
  Trace trace{.sequence = text_of(member_of(given, "sequence", kTask.key), "\"sequence\"", kTask.key)};
  const nlohmann::json& stacks = member_of(given, "stacks", kTask.key);
  for (const nlohmann::json& stack : list_of(stacks, 0, trace.sequence.size(), "\"stacks\"", kTask.key))
    trace.stacks.push_back(text_of(stack, "a stack", kTask.key));
  const nlohmann::json& says_empty = member_of(given, "says_empty", kTask.key);
  if (!says_empty.is_boolean()) refuse_given(kTask.key, "\"says_empty\": true or false", says_empty);
  trace.says_empty = says_empty.get<bool>();
  return trace;
}

const TaskEntry kTask = {.key = "dyck_language_reasoning_errors",
                         .title = "Find the wrong lines of a trace of brackets",
                         .uniqueness = Uniqueness::kComputed,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = nullptr,
                         .canonical = canonical,
                         .in_language = told_in};

}  // namespace longhaul::puzzles::dyck_language_reasoning_errors
