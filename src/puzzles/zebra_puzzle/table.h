// Tables as answers hold them: {"header": ["House", "name", …], "rows": [["1", "Alice", …], …]}, with cells
// as texts or numbers.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::puzzles::zebra_puzzle {

struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};

// None: it is not written so, or a row has another number of cells than the header.
std::optional<Table> read_table(std::string_view text);

}  // namespace longhaul::puzzles::zebra_puzzle
