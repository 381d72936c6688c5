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

// The stack after each bracket, up to the first that does not fit.
std::vector<std::string> stacks_of(std::string_view sequence) {
  std::vector<std::string> stacks;
  stacks.reserve(sequence.size());
  std::string open;
  for (const char c : sequence) {
    const size_t closed = kClosers.find(c);
    if (closed == std::string_view::npos) {
      if (kOpeners.find(c) == std::string_view::npos) break;
      open += c;
    } else {
      if (open.empty() || open.back() != kOpeners[closed]) break;
      open.pop_back();
    }
    stacks.push_back(open);
  }
  return stacks;
}

std::string text_of_lines(const std::vector<int64_t>& lines) {
  return lines.empty() ? std::string(kNone) : fmt::format("{}", fmt::join(lines, ","));
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  const int64_t length = (knobs["length"] + 1) / 2 * 2, kinds = knobs["kinds"];
  const std::string sequence = dyck_language::random_prefix(kinds, length, 0, draw);
  std::vector<std::string> stacks = stacks_of(sequence);
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
  nlohmann::json given = nlohmann::json::object();
  given["sequence"] = sequence;
  given["stacks"] = stacks;
  given["says_empty"] = says_empty;
  given["error_indices"] = wrong;
  return Puzzle{.given = std::move(given), .solution = text_of_lines(wrong)};
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
  for (const std::string& stack : trace.stacks) (text += '/') += stack;
  text += trace.says_empty ? "/+" : "/-";
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
  const std::vector<std::string> right = stacks_of(sequence);  // up to the first bracket that does not fit
  std::vector<int64_t> wrong;
  for (size_t i = 0; i < stacks.size(); ++i) {
    if (i >= right.size() || right[i] != stacks[i]) wrong.push_back(static_cast<int64_t>(i) + 3);
  }
  const bool ends_empty = right.size() == sequence.size() && (right.empty() || right.back().empty());
  if (says_empty != ends_empty) wrong.push_back(static_cast<int64_t>(stacks.size()) + 3);
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
                         .version = 2,
                         .uniqueness = Uniqueness::kComputed,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = nullptr,
                         .canonical = canonical,
                         .in_language = told_in};

}  // namespace longhaul::puzzles::dyck_language_reasoning_errors
