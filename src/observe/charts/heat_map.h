// HeatMap: a table of numbers between 0 and 1 as coloured fields, as inline SVG. It uses one hue from pale
// (0) to full (1), and every field shows its number, so that nothing depends on colour alone. ResultPage is a
// self-contained page with heat maps and tables.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace longhaul::observe {

struct HeatMap {
  std::string title, caption;
  std::string row_axis, column_axis;  // names of what rows and columns are: "depth", "tokens"
  std::vector<std::string> rows, columns;
  std::vector<std::vector<double>> values;  // [rows][columns]; not finite: an empty field
  std::string html() const;
};

// page_table makes a section of a page: a table whose columns from `numbers_from` on are numbers.
std::string page_table(const std::string& title, const std::string& note,
                       const std::vector<std::string>& columns, size_t numbers_from,
                       const std::vector<std::vector<std::string>>& rows);

struct ResultPage {
  std::string title, kicker, summary;
  std::vector<std::pair<std::string, std::string>> tiles;  // name, number
  std::vector<HeatMap> maps;
  std::string body;                                        // more HTML after the maps: charts
  std::vector<std::pair<std::string, std::string>> facts;  // a table at the end
  std::string facts_title = "How it was measured";
  std::string html() const;
};

}  // namespace longhaul::observe
