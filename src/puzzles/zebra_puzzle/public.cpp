#include "puzzles/zebra_puzzle/public.h"

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "puzzles/engine/answers/answer.h"
#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/given.h"
#include "puzzles/zebra_puzzle/zebra_puzzle.h"

namespace longhaul::puzzles::zebra_puzzle {
namespace {

constexpr JsonRules kPublicRules = {
    .code = ExitCode::kData,
    .what = "unusable file of public zebra puzzles",
    .hint = "a JSON list, or a line each, of objects with \"puzzle\" and \"solution\"",
    .depth = 16};

[[noreturn]] void refuse_public(const std::string& where, std::string expected, std::string found) {
  throw Error({.code = ExitCode::kData,
               .what = "unusable file of public zebra puzzles",
               .expected = std::move(expected),
               .found = std::move(found),
               .where = where});
}

std::optional<std::vector<std::string>> cells_of(const Literal& list) {
  if (!list.is_list()) return std::nullopt;
  std::vector<std::string> cells;
  for (const Literal& cell : list.items) {
    if (cell.is_list() || cell.kind == Literal::Kind::kDictionary) return std::nullopt;
    cells.emplace_back(trimmed(cell.text));
  }
  return cells;
}

Puzzle puzzle_of(const nlohmann::json& one, const std::string& where) {
  if (!one.is_object() || !one.contains("puzzle") || !one["puzzle"].is_string() || !one.contains("solution"))
    refuse_public(where, "an object with \"puzzle\", a text, and \"solution\"", "another");
  const nlohmann::json given = {{"puzzle", one["puzzle"]}, {"solution", one["solution"]}};
  const std::optional<Table> table = read_table(one["solution"].dump());
  if (!table)
    refuse_public(where, "\"solution\": {\"header\": [\"House\", …], \"rows\": [[\"1\", …], …]}", "another");
  for (const std::vector<std::string>& row : table->rows) {
    if (std::ranges::any_of(row,
                            [](const std::string& cell) { return cell.find("___") != std::string::npos; }))
      refuse_public(where, "a solution with its values",
                    "\"___\": a copy of the puzzles without their answers");
  }
  return {.given = given, .solution = one["solution"].dump()};
}

}  // namespace

std::optional<Table> read_table(std::string_view text) {
  const std::optional<Literal> value = read_literal(text);
  if (!value || value->kind != Literal::Kind::kDictionary || value->items.size() != 4) return std::nullopt;
  const bool header_first = value->items[0].text == "header" && value->items[2].text == "rows";
  const bool header_last = value->items[0].text == "rows" && value->items[2].text == "header";
  if (!header_first && !header_last) return std::nullopt;
  const Literal &header = value->items[header_first ? 1 : 3], &rows = value->items[header_first ? 3 : 1];
  const auto names = cells_of(header);
  if (!names || names->empty() || !rows.is_list()) return std::nullopt;
  Table table{.header = *names};
  for (const Literal& row : rows.items) {
    auto cells = cells_of(row);
    if (!cells || cells->size() != names->size()) return std::nullopt;
    table.rows.push_back(std::move(*cells));
  }
  return table;
}

Table solution_of_public(const nlohmann::json& given) {
  const std::optional<Table> table =
      given.contains("solution") ? read_table(given["solution"].dump()) : std::nullopt;
  if (!table || !given["puzzle"].is_string())
    refuse_given(kTask.key, "\"puzzle\": a text, and \"solution\": a table with header and rows", given);
  return *table;
}

nlohmann::json from_reference(const nlohmann::json& object) {
  const nlohmann::json& metadata = object.at("metadata");
  if (metadata.contains("clues") || metadata.contains("puzzle")) return metadata;
  const nlohmann::json answer = object.value("answer", nlohmann::json());
  nlohmann::json given = {
      {"puzzle", object.value("question", "")},
      {"solution",
       answer.is_string() ? nlohmann::json::parse(answer.get<std::string>(), nullptr, false) : answer}};
  if (!read_table(given["solution"].dump()))
    refuse_given(kTask.key, "\"clues\" in \"metadata\", or \"answer\": a table with header and rows", answer);
  return given;
}

std::vector<Puzzle> read_public_file(const std::string& text, const std::string& where) {
  std::vector<Puzzle> puzzles;
  const std::string_view begin = trimmed(text);
  const bool lines = begin.starts_with('{') && begin.find("\n{") != std::string_view::npos;
  if (lines) {
    std::istringstream all{std::string(begin)};
    int64_t number = 0;
    for (std::string line; std::getline(all, line);) {
      const std::string place = fmt::format("{}:{}", where, ++number);
      if (!trimmed(line).empty()) puzzles.push_back(puzzle_of(parse_json(line, place, kPublicRules), place));
    }
    return puzzles;
  }
  const nlohmann::json root = parse_json(text, where, kPublicRules);
  if (!root.is_array()) return {puzzle_of(root, where)};
  for (size_t i = 0; i < root.size(); ++i)
    puzzles.push_back(puzzle_of(root[i], fmt::format("{}, puzzle {}", where, i + 1)));
  return puzzles;
}

}  // namespace longhaul::puzzles::zebra_puzzle
