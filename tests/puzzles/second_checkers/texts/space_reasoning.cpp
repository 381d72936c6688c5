#include "puzzles/second_checkers/checkers.h"

#include <map>

namespace longhaul::puzzles {

namespace {

using PlainPoint = std::pair<int, int>;

// Places as on paper: rows count from the top, and half a place to the side is one unit, so that slanting
// steps are (1, 1). In a square a step to the side is two.
PlainPoint plain_walked(PlainPoint at, const std::string& text, bool square) {
  for (std::string part : plain_words(text, ',')) {
    if (part.starts_with("then ")) part = part.substr(5);
    const int steps = std::stoi(part);
    const std::string way = part.substr(part.rfind(' ') + 1);
    const int slant = way.find('-') != std::string::npos ? 1 : 2;
    if (way.find("up") != std::string::npos) at.second -= steps;
    if (way.find("down") != std::string::npos) at.second += steps;
    if (way.find("left") != std::string::npos) at.first -= slant * steps;
    if (way.find("right") != std::string::npos) at.first += slant * steps;
    if (square && slant == 1) return {-1000, -1000};
  }
  return at;
}

}  // namespace

bool plain_space_reasoning(const nlohmann::json& given, const std::string& text) {
  std::map<PlainPoint, std::string> known, after;
  std::map<PlainPoint, std::string>* map = &known;
  PlainPoint at = {0, 0};
  std::string answer;
  bool square = false, back = false;
  const auto bare = [](const std::string& item) { return item.substr(item.find(' ') + 1); };
  const auto join = [&] {  // what was met after the jump goes onto the first map
    for (const auto& [there, item] : after) {
      for (const auto& [here, same] : std::map(known)) {
        if (same != item) continue;
        const PlainPoint by = {here.first - there.first, here.second - there.second};
        for (const auto& [point, other] : after)
          known[{point.first + by.first, point.second + by.second}] = other;
        at = {at.first + by.first, at.second + by.second};
        return;
      }
    }
  };
  for (const std::string& line : plain_prompt_lines("space_reasoning", given)) {
    const std::string seen = ": there is ", start = "You start at a point where there is ",
                      last = "At last go ";
    if (line.starts_with("The grid is square")) square = true;
    if (line.starts_with(start)) known[at] = bare(line.substr(start.size(), line.size() - start.size() - 1));
    if (line.starts_with("Then you are put down")) at = {0, 0}, map = &after;
    if (line.starts_with("Go ")) {
      at = plain_walked(at, line.substr(3, line.find(':') - 3), square);
      const size_t place = line.find(seen);
      if (place != std::string::npos) {
        const std::string item =
            bare(line.substr(place + seen.size(), line.size() - place - seen.size() - 1));
        if (map->contains(at) && (*map)[at] != item) return false;  // two things at one point
        (*map)[at] = item;
      } else {
        back = true;
        if (at != PlainPoint{0, 0}) return false;
      }
    }
    if (line.starts_with(last)) {
      join();
      answer = known[plain_walked(at, line.substr(last.size(), line.find(". Which") - last.size()), square)];
    }
  }
  return !answer.empty() && answer == text && (!back || map == &after);
}

}  // namespace longhaul::puzzles
