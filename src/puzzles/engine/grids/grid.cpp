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
  nlohmann::json::array_t rows;
  rows.reserve(static_cast<size_t>(grid.rows));
  for (int64_t r = 0; r < grid.rows; ++r) {
    nlohmann::json::array_t row;
    row.reserve(static_cast<size_t>(grid.columns));
    for (int64_t c = 0; c < grid.columns; ++c) {
      if (grid.at(r, c) == kBlank) {
        row.emplace_back(blank);
      } else {
        row.emplace_back(grid.at(r, c));
      }
    }
    rows.emplace_back(std::move(row));
  }
  return rows;
}

std::optional<NumberGrid> answered_grid(std::string_view payload, const std::string& blank) {
  const std::optional<CellRows> rows = read_grid(payload);
  if (!rows || !rows->are_all_as_long_as((*rows)[0].size())) return std::nullopt;
  NumberGrid grid(static_cast<int64_t>(rows->size()), static_cast<int64_t>((*rows)[0].size()));
  auto to = grid.cells.begin();
  for (const std::vector<std::string_view>& row : rows->rows) {
    for (const std::string_view cell : row) {
      const std::optional<int64_t> number = read_integer(cell);
      if (!number && (blank.empty() || cell != blank)) return std::nullopt;
      if (number && *number < 0) return std::nullopt;
      *to++ = number.value_or(kBlank);
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
  char digits[24];
  std::string text = "[";
  text.reserve(grid.cells.size() * 4 + static_cast<size_t>(grid.rows) * 4 + 2);
  for (int64_t r = 0; r < grid.rows; ++r) {
    text += r == 0 ? "[" : ", [";
    for (int64_t c = 0; c < grid.columns; ++c) {
      if (c > 0) text += ", ";
      if (grid.at(r, c) == kBlank) {
        ((text += '"') += blank) += '"';
      } else {
        text.append(digits, std::to_chars(digits, std::end(digits), grid.at(r, c)).ptr);
      }
    }
    text += "]";
  }
  return text += "]";
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
  // Texts of cells have one width, so that places in the order of these texts stand for them.
  std::vector<int64_t> values = grid.cells;
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  LONGHAUL_ASSERT(values.size() <= 256, "{} different cells", values.size());
  NumberGrid row(1, static_cast<int64_t>(values.size()));
  row.cells = values;
  const std::string line = grid_lines(row);
  const size_t width = (line.size() + 1) / values.size() - 1;
  const auto text_of = [&](size_t value) {
    return std::string_view(line).substr(value * (width + 1), width);
  };
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, text_of);
  std::vector<char> places(values.size());
  for (size_t i = 0; i < order.size(); ++i) places[order[i]] = static_cast<char>(i);
  std::string cells;
  for (const int64_t cell : grid.cells)
    cells += places[static_cast<size_t>(std::ranges::lower_bound(values, cell) - values.begin())];
  std::string lines;
  for (const char cell :
       least_turned(grid.rows, grid.columns, true, [&] { return [&](size_t i) { return cells[i]; }; })) {
    if (!lines.empty())
      lines += lines.size() % (static_cast<size_t>(grid.columns) * (width + 1)) ==
                       static_cast<size_t>(grid.columns) * (width + 1) - 1
                   ? '\n'
                   : ' ';
    lines += text_of(order[static_cast<unsigned char>(cell)]);
  }
  return lines;
}

}  // namespace longhaul::puzzles
