// Space reasoning: a walk over the points of a grid that is told step by step; what is at the point where it
// ends? given: {"shape": "square", "triangle" or "diamond", "side": 4, "start": "apple", "walk": [[moves,
// "pear"], …], "jump": [[moves, "fig"], …], "back": moves, "last": moves}; moves are [["up", 2], …]. After a
// jump one does not know where one is until a thing that was seen before is met again; "jump" may be empty,
// and "back", which leads from its end to the point jumped to, too. The public verifier reads the answer
// alone. Source: docs/puzzles.md#space_reasoning.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "puzzles/task.h"

namespace longhaul::puzzles::space_reasoning {

struct Point {
  int64_t x = 0, y = 0;
  bool operator==(const Point&) const = default;
};
struct Direction {
  std::string_view english, chinese;
  int64_t x = 0, y = 0;
};
struct Shape {
  std::string_view name;
  std::vector<Direction> directions;
  bool (*holds)(Point point, int64_t side);
};
const std::vector<Shape>& shapes();

struct Run {
  size_t direction = 0;  // of the shape
  int64_t steps = 1;
};
using Moves = std::vector<Run>;
struct Leg {
  Moves moves;
  std::string item;
};
struct Given {
  const Shape* shape = nullptr;
  int64_t side = 0;
  std::string start;
  std::vector<Leg> walk, jump;
  Moves back, last;
};
Given read_given(const nlohmann::json& given);
std::optional<std::string> answer_of(const Given& given);  // none: what is told does not decide it

std::string prompt(const nlohmann::json& given, Language language, int64_t which);
extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::space_reasoning
