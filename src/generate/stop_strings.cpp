#include "generate/stop_strings.h"

#include <algorithm>
#include <utility>

namespace longhaul::generate {

// The longest end of the text that a stop string begins with.
size_t StopStrings::held_back() const {
  size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > longest; --length) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, length))) longest = length;
    }
  }
  return longest;
}

std::string StopStrings::add(std::string_view fresh) {
  if (found()) return "";
  held_ += fresh;
  size_t at = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t place = held_.find(stop);
    if (place > at || place == std::string::npos) continue;
    // Of those that begin at one place the first of the list counts.
    if (place < at) found_ = stop;
    at = place;
  }
  if (found()) {
    std::string text = held_.substr(0, at + (keeps_ ? found_.size() : 0));
    held_.clear();
    return text;
  }
  const size_t shown = held_.size() - held_back();
  std::string text = held_.substr(0, shown);
  held_.erase(0, shown);
  return text;
}

std::string StopStrings::rest() { return std::exchange(held_, ""); }

}  // namespace longhaul::generate
