#include "puzzles/second_checkers/checkers.h"

#include <algorithm>

namespace longhaul::puzzles {

namespace {

// Takes pairs that match out until nothing is left, as one may say what a Dyck word is.
bool plain_balanced(std::string text) {
  for (size_t before = text.size() + 1; text.size() < before;) {
    before = text.size();
    for (const char* pair : {"()", "[]", "{}", "<>"}) {
      for (size_t at = text.find(pair); at != std::string::npos; at = text.find(pair)) text.erase(at, 2);
    }
  }
  return text.empty();
}

}  // namespace

// The answer follows from the prefix: no shorter text that begins so is balanced.
bool plain_dyck(const nlohmann::json& given, const std::string& text) {
  const std::string prefix = given["prefix"];
  const size_t open = static_cast<size_t>(std::ranges::count_if(
      prefix, [](char c) { return std::string_view("([{<").find(c) != std::string_view::npos; }));
  return text.starts_with(prefix) && plain_balanced(text) && text.size() == 2 * open;
}

// A prefix of a Dyck word is one that some closers make balanced; the first error ends the shortest prefix
// that is none.
bool plain_dyck_errors(const nlohmann::json& given, const std::string& text) {
  const std::string sequence = given["sequence"];
  const auto can_go_on = [](const std::string& begin) {
    std::string rest = begin;
    for (size_t before = rest.size() + 1; rest.size() < before;) {
      before = rest.size();
      for (const char* pair : {"()", "[]", "{}", "<>"}) {
        for (size_t at = rest.find(pair); at != std::string::npos; at = rest.find(pair)) rest.erase(at, 2);
      }
    }
    return rest.find_first_of(")]}>") == std::string::npos;
  };
  for (size_t n = 1; n <= sequence.size(); ++n) {
    if (!can_go_on(sequence.substr(0, n))) return text == std::to_string(n);
  }
  return text == (plain_balanced(sequence) ? "-1" : std::to_string(sequence.size() + 1));
}

}  // namespace longhaul::puzzles
