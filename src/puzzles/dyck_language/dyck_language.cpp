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

// ways[n][d]: how many walks of n steps of +1 and −1 lead from depth d to `open` and never go below 0, capped
// where they are too many to count.
using Ways = std::vector<std::vector<uint64_t>>;

Ways count_walks(int64_t length, int64_t open) {
  constexpr uint64_t kCap = uint64_t{1} << 40;  // proportions of larger counts are kept by halving both
  Ways ways(static_cast<size_t>(length + 1), std::vector<uint64_t>(static_cast<size_t>(length + 2)));
  ways[0][static_cast<size_t>(open)] = 1;
  for (size_t n = 1; n <= static_cast<size_t>(length); ++n) {
    uint64_t largest = 0;
    for (size_t d = 0; d <= static_cast<size_t>(length); ++d) {
      ways[n][d] = ways[n - 1][d + 1] + (d > 0 ? ways[n - 1][d - 1] : 0);
      largest = std::max(largest, ways[n][d]);
    }
    for (; largest > kCap; largest /= 2) {
      for (uint64_t& each : ways[n]) each = each == 0 ? 0 : std::max<uint64_t>(1, each / 2);
    }
  }
  return ways;
}

std::string text_at(const nlohmann::json& given, const char* key) {
  if (!given.is_object() || !given.contains(key) || !given[key].is_string() ||
      given[key].get_ref<const std::string&>().size() > kLongestSequence)
    refuse_given(kTask.key, fmt::format("\"{}\": a sequence of at most {} brackets", key, kLongestSequence),
                 given);
  return given[key].get<std::string>();
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  const int64_t length = (knobs["length"] + 1) / 2 * 2, missing = std::min(knobs["missing"], length / 2);
  const std::string prefix = random_prefix(knobs["kinds"], length - missing, missing, draw);
  const std::string full = prefix + closers_of(*open_brackets(prefix));
  return Puzzle{.given = {{"prefix", prefix}, {"full_sequence", full}}, .solution = full};
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const std::string full = text_at(given, "full_sequence");
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
  const std::string full = text_at(given, "full_sequence");
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
  return fmt::format("{}/{}", text, text_at(given, "prefix").size());
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

std::string random_prefix(int64_t kinds, int64_t length, int64_t open, Draw& draw) {
  const Ways ways = count_walks(length, open);
  std::string sequence, stack;
  for (int64_t left = length; left > 0; --left) {
    const auto& next = ways[static_cast<size_t>(left - 1)];
    const uint64_t up = next[stack.size() + 1], down = stack.empty() ? 0 : next[stack.size() - 1];
    LONGHAUL_ASSERT(up + down > 0, "length {} open {}", length, open);
    if (draw.below(up + down) < up) {
      stack += kOpeners[draw.below(static_cast<uint64_t>(kinds))];
      sequence += stack.back();
    } else {
      sequence += kClosers[kOpeners.find(stack.back())];
      stack.pop_back();
    }
  }
  return sequence;
}

const TaskEntry kTask = {.key = "dyck_language",
                         .title = "Complete a sequence of brackets",
                         .uniqueness = Uniqueness::kComputed,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = nullptr,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::dyck_language
