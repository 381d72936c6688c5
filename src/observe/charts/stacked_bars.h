// StackedBars: a few totals next to each other, each divided into the same parts, as inline SVG. Each part
// has a colour of the report's style and a place in the legend; a wide part shows its number, and the pointer
// shows every part's name and number.
#pragma once

#include <string>
#include <vector>

namespace longhaul::observe {

struct StackedPart {
  std::string name;
  std::string colour;   // one of the report's: "train", "eval", "gzip", "xz", "save", "resume", "bad"
  double strength = 1;  // strength of the colour, 0 to 1: two parts that belong together share a hue
};

struct StackedBar {
  std::string name;
  std::vector<double> values;  // one for each part; not negative
  std::string total;           // text after the bar
};

struct StackedBars {
  std::string title, caption, unit;
  std::vector<StackedPart> parts;
  std::vector<StackedBar> bars;
  double limit = 0;  // a line across all bars that none should exceed; 0: none
  std::string limit_name;
  std::string html() const;
};

}  // namespace longhaul::observe
