// Literal: a value as people and models write them, read without evaluating anything: nested lists in [] or
// (), dictionaries in {}, texts in single or double quotes, bare words, integers, decimals, None/null,
// True/False. Commas at the end are taken.
//
//   const std::optional<Literal> grid = read_literal("[[1, 'X'], [2, 3],]");
//
// Bounded: nesting of 8, 8,192 values; beyond that, and of anything else, there is no value. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longhaul::puzzles {

struct Literal {
  enum class Kind : uint8_t { kNull, kBool, kInteger, kDecimal, kWord, kText, kList, kDictionary };
  Kind kind = Kind::kNull;
  int64_t integer = 0;         // of kInteger and kBool
  std::string text;            // of all but lists and dictionaries, as it was written, without quotes
  std::vector<Literal> items;  // of kList; of kDictionary keys and values in turn

  bool is_list() const { return kind == Kind::kList; }
};

std::optional<Literal> read_literal(std::string_view text);
// A list of two integers, such as (2, 3): a place, row first.
std::optional<std::pair<int64_t, int64_t>> read_pair(const Literal& value);
// The whole of a text as an integer of at most 18 digits, as it is usually written: a minus sign or none, no
// zeros in front.
std::optional<int64_t> read_integer(std::string_view text);

// The same, or digits in groups of three: "12,345".
std::optional<int64_t> read_grouped_integer(std::string_view text);

// What stands between separators, without the blanks around it; some may be empty, and an empty text is one
// empty word.
std::vector<std::string> words_between(std::string_view text, char separator);

// A grid of cells as texts without the blanks around them. Rows are lists ("[[1, X], [2, 3]]"), or stand
// between commas with blanks between cells ("[[1 X,2 3]]"). Rows may differ in length; cells must be no
// lists. The texts are views of `payload`, or of `own` where that is written otherwise than as plain lists,
// so a CellRows must not be copied.
struct CellRows {
  std::vector<std::vector<std::string_view>> rows;  // at least one
  std::vector<std::vector<std::string>> own;

  size_t size() const { return rows.size(); }
  const std::vector<std::string_view>& operator[](size_t row) const { return rows[row]; }
  bool are_all_as_long_as(size_t columns) const {
    return std::ranges::all_of(rows, [&](const auto& row) { return row.size() == columns; });
  }
};
std::optional<CellRows> read_grid(std::string_view payload);

}  // namespace longhaul::puzzles
