// HeatMap: a table of numbers between 0 and 1 as coloured fields, as inline SVG: one hue from pale (0) to full (1), every field with its number, so
// that nothing depends on colour alone. evaluation_page: a page of its own with heat maps and tables, one file that needs nothing else.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace longhaul::observe {

struct HeatMap {
  std::string title, caption;
  std::string row_axis, column_axis;  // what rows and columns are: "depth", "tokens"
  std::vector<std::string> rows, columns;
  std::vector<std::vector<double>> values;  // [rows][columns]; not finite: an empty field
  std::string html() const;
};

struct ResultPage {
  std::string title, kicker, summary;
  std::vector<std::pair<std::string, std::string>> tiles;  // name, number
  std::vector<HeatMap> maps;
  std::string body;                                        // more HTML behind the maps: charts
  std::vector<std::pair<std::string, std::string>> facts;  // a table at the end
  std::string html() const;
};

}  // namespace longhaul::observe
