// StopStrings: ends a text that comes piece by piece at the first of some strings, wherever tokens were cut.
// What may be the beginning of one of them is held back until it is known not to be.
//
//   StopStrings stops({"\n\n", "User:"});
//   say(stops.add(fresh));
//   if (stops.found()) …          // else, at the end: say(stops.rest());
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::generate {

class StopStrings {
 public:
  // keeps: the string that was found stays at the end of the text.
  explicit StopStrings(std::vector<std::string> stops, bool keeps = false)
      : stops_(std::move(stops)), keeps_(keeps) {}

  std::string add(std::string_view fresh);  // the text that can be shown now; nothing after one was found
  std::string rest();                       // what was held back
  bool found() const { return !found_.empty(); }
  const std::string& which() const { return found_; }

 private:
  size_t held_back() const;
  std::vector<std::string> stops_;
  bool keeps_;
  std::string held_, found_;
};

}  // namespace longhaul::generate
