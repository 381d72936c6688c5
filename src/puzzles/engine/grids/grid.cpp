#include "puzzles/engine/grids/grid.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/error.h"
#include "puzzles/engine/answers/literal.h"

namespace longhaul::puzzles {
namespace {

[[noreturn]] void refuse_grid(const std::string& where, std::string expected, std::string found) {
  throw Error({.code = ExitCode::kData,
               .what = "unusable puzzle",
               .expected = std::move(expected),
               .found = std::move(found),
               .where = where});
}

}  // namespace

NumberGrid number_grid(const nlohmann::json& json, const std::string& where, int64_t most,
                       const std::string& blank) {
  if (!json.is_array() || json.empty() || !json[0].is_array() || json[0].empty() ||
      static_cast<int64_t>(json.size()) > most || static_cast<int64_t>(json[0].size()) > most)
    refuse_grid(where, fmt::format("rows of cells, 1 to {} each way", most),
                json.is_array() ? "other sizes" : "no list");
  NumberGrid grid(static_cast<int64_t>(json.size()), static_cast<int64_t>(json[0].size()));
  for (int64_t r = 0; r < grid.rows; ++r) {
    const nlohmann::json& row = json[static_cast<size_t>(r)];
    if (!row.is_array() || static_cast<int64_t>(row.size()) != grid.columns)
      refuse_grid(where, fmt::format("rows of {} cells", grid.columns),
                  fmt::format("row {} is another", r + 1));
    for (int64_t c = 0; c < grid.columns; ++c) {
      const nlohmann::json& cell = row[static_cast<size_t>(c)];
      if (cell.is_string() && cell.get_ref<const std::string&>() == blank) {
        grid.at(r, c) = kBlank;
      } else if (cell.is_number_integer() && cell.get<int64_t>() >= 0 && cell.get<int64_t>() <= 1'000'000) {
        grid.at(r, c) = cell.get<int64_t>();
      } else {
        refuse_grid(where, fmt::format("whole numbers, and \"{}\" for open cells", blank),
                    fmt::format("row {}, column {} is another", r + 1, c + 1));
      }
    }
  }
  return grid;
}

nlohmann::json grid_json(const NumberGrid& grid, const std::string& blank) {
  nlohmann::json json = nlohmann::json::array();
  for (int64_t r = 0; r < grid.rows; ++r) {
    nlohmann::json& row = json.emplace_back(nlohmann::json::array());
    for (int64_t c = 0; c < grid.columns; ++c) {
      if (grid.at(r, c) == kBlank) {
        row.push_back(blank);
      } else {
        row.push_back(grid.at(r, c));
      }
    }
  }
  return json;
}

std::optional<NumberGrid> answered_grid(std::string_view payload, const std::string& blank) {
  const auto rows = read_grid(payload);
  if (!rows) return std::nullopt;
  NumberGrid grid(static_cast<int64_t>(rows->size()), static_cast<int64_t>(rows->front().size()));
  for (int64_t r = 0; r < grid.rows; ++r) {
    const std::vector<std::string>& row = (*rows)[static_cast<size_t>(r)];
    if (static_cast<int64_t>(row.size()) != grid.columns) return std::nullopt;
    for (int64_t c = 0; c < grid.columns; ++c) {
      const std::string& cell = row[static_cast<size_t>(c)];
      const std::optional<int64_t> number = read_integer(cell);
      if (!number && (blank.empty() || cell != blank)) return std::nullopt;
      if (number && *number < 0) return std::nullopt;
      grid.at(r, c) = number.value_or(kBlank);
    }
  }
  return grid;
}

std::string grid_lines(const NumberGrid& grid, const std::string& blank) {
  char digits[24];
  const auto text_of = [&](int64_t cell) -> std::string_view {
    if (cell == kBlank) return blank;
    return {digits, static_cast<size_t>(std::to_chars(digits, std::end(digits), cell).ptr - digits)};
  };
  size_t width = blank.size();
  for (const int64_t cell : grid.cells) width = std::max(width, text_of(cell).size());
  std::string lines;
  lines.reserve(grid.cells.size() * (width + 1));
  for (size_t i = 0; i < grid.cells.size(); ++i) {
    if (i > 0) lines += static_cast<int64_t>(i) % grid.columns == 0 ? '\n' : ' ';
    const std::string_view text = text_of(grid.cells[i]);
    lines.append(width - text.size(), ' ').append(text);
  }
  return lines;
}

std::string grid_payload(const NumberGrid& grid, const std::string& blank) {
  std::string text = "[";
  for (int64_t r = 0; r < grid.rows; ++r) {
    text += r == 0 ? "[" : ", [";
    for (int64_t c = 0; c < grid.columns; ++c) {
      text += c == 0 ? "" : ", ";
      text += grid.at(r, c) == kBlank ? '"' + blank + '"' : std::to_string(grid.at(r, c));
    }
    text += "]";
  }
  return text + "]";
}

std::vector<std::vector<int64_t>> turned_places(int64_t rows, int64_t columns) {
  NumberGrid places(rows, columns);
  std::iota(places.cells.begin(), places.cells.end(), int64_t{0});
  std::vector<std::vector<int64_t>> all;
  for (const NumberGrid& way : turned(places)) {
    std::vector<int64_t>& to = all.emplace_back(way.cells.size());
    for (size_t place = 0; place < to.size(); ++place)
      to[static_cast<size_t>(way.cells[place])] = static_cast<int64_t>(place);
  }
  return all;
}

std::string canonical_grid(const NumberGrid& grid) {
  std::string least;
  for (const NumberGrid& way : turned(grid)) {
    const std::string text = grid_lines(way);
    if (least.empty() || text < least) least = text;
  }
  return least;
}

}  // namespace longhaul::puzzles
