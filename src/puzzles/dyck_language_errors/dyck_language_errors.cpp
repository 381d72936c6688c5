#include "puzzles/dyck_language_errors/dyck_language_errors.h"

#include <algorithm>
#include <array>

#include "puzzles/dyck_language/dyck_language.h"
#include "puzzles/engine/answers/answer.h"
#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/given.h"

namespace longhaul::puzzles::dyck_language_errors {
namespace {

using dyck_language::kClosers;
using dyck_language::kOpeners;

constexpr int64_t kValidPercent = 20;
constexpr Knob kKnobs[] = {{"kinds", 1, 4, 2, 4, "kinds of brackets"},
                           {"length", 4, 200, 6, 60, "brackets before one is spoilt (made even)"}};

// One closing bracket changed into another kind, left out, or put in where it was not.
std::string spoilt(std::string sequence, int64_t kinds, Draw& draw) {
  // half of the brackets close
  const auto any_closer = [&] {
    size_t left = draw.below(sequence.size() / 2), place = 0;
    while (kClosers.find(sequence[place]) == std::string_view::npos || left-- > 0) ++place;
    return place;
  };
  switch (kinds > 1 ? draw.below(3) : 1 + draw.below(2)) {
    case 0: {
      char& closer = sequence[any_closer()];
      const auto kind = kClosers.find(closer);
      closer =
          kClosers[(kind + 1 + draw.below(static_cast<uint64_t>(kinds - 1))) % static_cast<uint64_t>(kinds)];
      break;
    }
    case 1:
      sequence.erase(any_closer(), 1);
      break;
    default:
      sequence.insert(draw.below(sequence.size() + 1), 1, kClosers[draw.below(static_cast<uint64_t>(kinds))]);
  }
  return sequence;
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  const int64_t length = (knobs["length"] + 1) / 2 * 2;
  std::string sequence = dyck_language::random_prefix(knobs["kinds"], length, 0, draw);
  const bool valid = draw.chance(kValidPercent);
  if (!valid) sequence = spoilt(std::move(sequence), knobs["kinds"], draw);
  const int64_t place = first_error(sequence);
  if (valid != (place == -1)) return std::nullopt;
  nlohmann::json given = nlohmann::json::object();
  given["sequence"] = sequence;
  given["is_valid"] = valid;
  given["first_error_pos"] = valid ? nlohmann::json() : nlohmann::json(place);
  return Puzzle{.given = std::move(given), .solution = std::to_string(place)};
}

int64_t key_of(const nlohmann::json& given) {
  const auto valid = given.find("is_valid"), place = given.find("first_error_pos");
  if (valid != given.end() && valid->is_boolean() && place != given.end()) {
    if (valid->get<bool>()) return -1;
    if (place->is_number_integer()) return place->get<int64_t>();
  }
  refuse_given(kTask.key, "\"is_valid\": true, or false and \"first_error_pos\": a whole number", given);
}

// The last whole number of the answer counts: models like to say what it is.
std::optional<int64_t> last_integer(std::string_view text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  size_t end = text.size();
  while (end > 0 && !is_digit(text[end - 1])) --end;
  size_t begin = end;
  while (begin > 0 && is_digit(text[begin - 1])) --begin;
  if (begin > 0 && text[begin - 1] == '-') --begin;
  // A sign or a digit in front of it: it is a part of something else, such as "5-1".
  if (begin > 0 && std::string_view("-+.0123456789").find(text[begin - 1]) != std::string_view::npos)
    return std::nullopt;
  return read_integer(text.substr(begin, end - begin));
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const int64_t key = key_of(given);
  const std::optional<int64_t> answer = last_integer(payload);
  if (!answer) return {VerdictCode::kUnreadable, "no whole number"};
  if (*answer != key)
    return {VerdictCode::kRuleBroken, fmt::format("{} is not the place of the first error", *answer)};
  return {};
}

std::string canonical(const nlohmann::json& given) {
  // Kinds are names, in the order in which they come: A and a, B and b, …
  std::array<char, 5> names{};
  char next = 'A';
  std::string text = text_of(member_of(given, "sequence", kTask.key), "\"sequence\"", kTask.key);
  for (char& c : text) {
    const size_t opener = kOpeners.find(c), closer = kClosers.find(c);
    char& name = names[std::min({opener, closer, names.size() - 1})];
    if (name == 0) name = next++;
    c = static_cast<char>(name | (opener == std::string_view::npos ? 0x20 : 0));
  }
  return text;
}

}  // namespace

int64_t first_error(std::string_view sequence) {
  std::string open;
  for (size_t i = 0; i < sequence.size(); ++i) {
    if (kOpeners.find(sequence[i]) != std::string_view::npos) {
      open += sequence[i];
      continue;
    }
    const size_t kind = kClosers.find(sequence[i]);
    if (kind == std::string_view::npos || open.empty() || open.back() != kOpeners[kind])
      return static_cast<int64_t>(i) + 1;
    open.pop_back();
  }
  return open.empty() ? -1 : static_cast<int64_t>(sequence.size()) + 1;
}

const TaskEntry kTask = {.key = "dyck_language_errors",
                         .title = "Find the first error in a sequence of brackets",
                         .version = 2,
                         .uniqueness = Uniqueness::kComputed,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = nullptr,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::dyck_language_errors
