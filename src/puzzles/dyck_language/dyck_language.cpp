#include "puzzles/dyck_language/dyck_language.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"
#include "puzzles/engine/given.h"

namespace longhaul::puzzles::dyck_language {
namespace {

constexpr size_t kLongestSequence = 1000;
constexpr Knob kKnobs[] = {{"kinds", 1, 4, 1, 4, "kinds of brackets"},
                           {"length", 4, 120, 8, 60, "brackets of the whole sequence (made even)"},
                           {"missing", 1, 60, 1, 16, "brackets that are missing at its end (at most half)"}};

const std::string& text_at(const nlohmann::json& given, const char* key) {
  const nlohmann::json& text = member_of(given, key, kTask.key);
  if (!text.is_string() || text.get_ref<const std::string&>().size() > kLongestSequence)
    refuse_given(kTask.key, fmt::format("\"{}\": a sequence of at most {} brackets", key, kLongestSequence),
                 given);
  return text.get_ref<const std::string&>();
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  const int64_t length = (knobs["length"] + 1) / 2 * 2, missing = std::min(knobs["missing"], length / 2);
  const std::string prefix = random_prefix(knobs["kinds"], length - missing, missing, draw);
  Puzzle puzzle{.given = nlohmann::json::object(), .solution = prefix + closers_of(*open_brackets(prefix))};
  puzzle.given["prefix"] = prefix;
  puzzle.given["full_sequence"] = puzzle.solution;
  return puzzle;
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const std::string& full = text_at(given, "full_sequence");
  if (payload == full) return {};
  std::string answer;
  for (const char c : payload) {
    if (std::string_view(" \t\r\n\"'`").find(c) == std::string_view::npos) answer += c;
  }
  if (answer == full) return {};
  if (answer.find_first_not_of("([{<)]}>") != std::string::npos)
    return {VerdictCode::kUnreadable, "other characters than brackets"};
  if (answer.size() != full.size())
    return {VerdictCode::kShape, fmt::format("{} brackets, where the shortest complete sequence has {}",
                                             answer.size(), full.size())};
  const auto differs = std::ranges::mismatch(answer, full).in1 - answer.begin();
  return {VerdictCode::kRuleBroken, fmt::format("bracket {} is not the one that belongs there", differs + 1)};
}

std::string canonical(const nlohmann::json& given) {
  // Kinds are names: in the order in which they first open.
  const std::string& full = text_at(given, "full_sequence");
  std::string names, text;
  for (const char c : full) {
    const size_t opener = kOpeners.find(c), closer = kClosers.find(c);
    const char kind = opener != std::string_view::npos   ? kOpeners[opener]
                      : closer != std::string_view::npos ? kOpeners[closer]
                                                         : c;
    if (names.find(kind) == std::string::npos) names += kind;
    const size_t name = names.find(kind);
    text += opener != std::string_view::npos ? kOpeners[name % 4] : kClosers[name % 4];
  }
  return (text += '/') += std::to_string(text_at(given, "prefix").size());
}

}  // namespace

std::optional<std::string> open_brackets(std::string_view sequence) {
  std::string open;
  for (const char c : sequence) {
    if (kOpeners.find(c) != std::string_view::npos) {
      open += c;
      continue;
    }
    const size_t kind = kClosers.find(c);
    if (kind == std::string_view::npos || open.empty() || open.back() != kOpeners[kind]) return std::nullopt;
    open.pop_back();
  }
  return open;
}

std::string closers_of(std::string_view open) {
  std::string closers;
  for (size_t i = open.size(); i > 0; --i) closers += kClosers[kOpeners.find(open[i - 1])];
  return closers;
}

// Read from its end, a prefix is a walk from depth `open` down to 0 that never goes below. Of the walks with
// n steps from depth d, (d + 2)(n − d) of 2n(d + 1) go up first: the ballot numbers of d + 1 and d − 1.
std::string random_prefix(int64_t kinds, int64_t length, int64_t open, Draw& draw) {
  std::string sequence(static_cast<size_t>(length), ' '), stack;
  for (int64_t left = length, depth = open; left > 0; --left) {
    const bool up = static_cast<int64_t>(draw.below(static_cast<uint64_t>(2 * left * (depth + 1)))) <
                    (depth + 2) * (left - depth);
    sequence[static_cast<size_t>(left - 1)] = up ? ')' : '(';
    depth += up ? 1 : -1;
  }
  for (char& c : sequence) {
    if (c == '(') {
      stack += c = kOpeners[draw.below(static_cast<uint64_t>(kinds))];
    } else {
      c = kClosers[kOpeners.find(stack.back())];
      stack.pop_back();
    }
  }
  return sequence;
}

const TaskEntry kTask = {.key = "dyck_language",
                         .title = "Complete a sequence of brackets",
                         .version = 2,
                         .uniqueness = Uniqueness::kComputed,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = nullptr,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::dyck_language
