#include "puzzles/engine/grids/letters.h"

#include <fmt/format.h>

#include "base/error.h"
#include "puzzles/engine/answers/literal.h"

namespace longhaul::puzzles {

LetterGrid letter_grid(const nlohmann::json& json, const std::string& where, int64_t most,
                       std::string_view allowed) {
  const auto refuse = [&](std::string found) {
    throw Error(
        {.code = ExitCode::kData,
         .what = "unusable puzzle",
         .expected = fmt::format("rows of one length, 1 to {} each way, of the letters {}", most, allowed),
         .found = std::move(found),
         .where = where});
  };
  const auto fits = [&](const nlohmann::json& list) {
    return list.is_array() && !list.empty() && static_cast<int64_t>(list.size()) <= most;
  };
  if (!fits(json) || !fits(json[0])) refuse(json.is_array() ? "other sizes" : "no list");
  LetterGrid grid(static_cast<int64_t>(json.size()), static_cast<int64_t>(json[0].size()));
  for (int64_t r = 0; r < grid.rows; ++r) {
    const nlohmann::json& row = json[static_cast<size_t>(r)];
    if (!row.is_array() || static_cast<int64_t>(row.size()) != grid.columns)
      refuse(fmt::format("row {} of another length", r + 1));
    for (int64_t c = 0; c < grid.columns; ++c) {
      const nlohmann::json& cell = row[static_cast<size_t>(c)];
      const std::string_view letter =
          cell.is_string() ? std::string_view(cell.get_ref<const std::string&>()) : "";
      if (letter.size() != 1 || allowed.find(letter) == std::string_view::npos)
        refuse(fmt::format("something else in row {}, column {}", r + 1, c + 1));
      grid.at(r, c) = letter[0];
    }
  }
  return grid;
}

nlohmann::json letters_json(const LetterGrid& grid) {
  nlohmann::json::array_t rows;
  rows.reserve(static_cast<size_t>(grid.rows));
  for (int64_t r = 0; r < grid.rows; ++r) {
    nlohmann::json::array_t row;
    row.reserve(static_cast<size_t>(grid.columns));
    for (int64_t c = 0; c < grid.columns; ++c) row.emplace_back(std::string(1, grid.at(r, c)));
    rows.emplace_back(std::move(row));
  }
  return rows;
}

std::optional<LetterGrid> answered_letters(std::string_view payload, std::string_view allowed) {
  const std::optional<CellRows> rows = read_grid(payload);
  if (!rows || !rows->are_all_as_long_as((*rows)[0].size())) return std::nullopt;
  LetterGrid grid(static_cast<int64_t>(rows->size()), static_cast<int64_t>((*rows)[0].size()));
  auto to = grid.cells.begin();
  for (const std::vector<std::string_view>& row : rows->rows) {
    for (const std::string_view letter : row) {
      if (letter.size() != 1 || allowed.find(letter) == std::string_view::npos) return std::nullopt;
      *to++ = letter[0];
    }
  }
  return grid;
}

std::string letter_lines(const LetterGrid& grid) {
  std::string lines;
  for (int64_t r = 0; r < grid.rows; ++r) {
    for (int64_t c = 0; c < grid.columns; ++c) {
      if (c > 0) lines += ' ';
      lines += grid.at(r, c);
    }
    if (r + 1 < grid.rows) lines += '\n';
  }
  return lines;
}

std::string letters_payload(const LetterGrid& grid) {
  std::string text = "[";
  for (int64_t r = 0; r < grid.rows; ++r) {
    text += r == 0 ? "[" : ", [";
    for (int64_t c = 0; c < grid.columns; ++c)
      (text += c == 0 ? "\"" : ", \"").append(1, grid.at(r, c)) += '"';
    text += "]";
  }
  return text + "]";
}

}  // namespace longhaul::puzzles
