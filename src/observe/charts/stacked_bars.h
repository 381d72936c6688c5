// StackedBars: a few wholes beside each other, each cut into the same parts, as inline SVG. Parts have a colour of the report's style each and a place
// in the legend; a wide part says its number, every part's name and number come under the pointer.
#pragma once

#include <string>
#include <vector>

namespace longhaul::observe {

struct StackedPart {
  std::string name;
  std::string colour;   // of the report's: "train", "eval", "gzip", "xz", "save", "resume", "bad"
  double strength = 1;  // of the colour, 0 to 1: two parts that belong together share a hue
};

struct StackedBar {
  std::string name;
  std::vector<double> values;  // one for each part; not negative
  std::string total;           // as it is said behind the bar
};

struct StackedBars {
  std::string title, caption, unit;
  std::vector<StackedPart> parts;
  std::vector<StackedBar> bars;
  double limit = 0;  // a line across all bars, that none should pass; 0: none
  std::string limit_name;
  std::string html() const;
};

}  // namespace longhaul::observe
