#include "puzzles/space_reasoning/space_reasoning.h"

#include <algorithm>

#include "puzzles/engine/given.h"
#include "puzzles/engine/words/words.h"

namespace longhaul::puzzles::space_reasoning {
namespace {

constexpr size_t kMostLegs = 60, kMostRuns = 200;
constexpr int64_t kLongestSide = 14;
constexpr int64_t kHiddenStops = 3;  // of the last way
constexpr Knob kKnobs[] = {
    {"side", 2, kLongestSide, 3, 10, "edges along a side of the grid"},
    {"walk", 2, 20, 3, 12, "things met on the first walk, after the start"},
    {"unknown", 0, 10, 0, 6,
     "new things met after a jump (0: there is no jump); half of the puzzles have none"}};

Point moved(Point point, const Shape& shape, const Moves& moves) {
  for (const Run& run : moves) {
    point.x += shape.directions[run.direction].x * run.steps;
    point.y += shape.directions[run.direction].y * run.steps;
  }
  return point;
}

std::vector<Point> points_of(const Shape& shape, int64_t side) {
  std::vector<Point> points;
  for (int64_t y = 0; y <= side; ++y) {
    for (int64_t x = 0; x <= side; ++x) {
      if (shape.holds({x, y}, side)) points.push_back({x, y});
    }
  }
  return points;
}

// Steps between two points. In a triangle one step of x and y at once, the same way, is an edge.
int64_t steps_between(const Shape& shape, Point a, Point b) {
  const int64_t x = b.x - a.x, y = b.y - a.y, far = std::max(std::abs(x), std::abs(y));
  if (shape.name == "triangle" && (x < 0) == (y < 0)) return far;
  return std::abs(x) + std::abs(y);
}

// A shortest way, one of many.
void go(const Shape& shape, int64_t side, Point& from, Point to, Moves& moves, Draw& draw) {
  while (from != to) {
    std::vector<size_t> good;
    for (size_t i = 0; i < shape.directions.size(); ++i) {
      const Point next = moved(from, shape, {{i, 1}});
      if (shape.holds(next, side) && steps_between(shape, next, to) < steps_between(shape, from, to))
        good.push_back(i);
    }
    const size_t direction = draw.pick(good);
    from = moved(from, shape, {{direction, 1}});
    if (!moves.empty() && moves.back().direction == direction) {
      ++moves.back().steps;
    } else {
      moves.push_back({direction, 1});
    }
  }
}

nlohmann::json json_of(const Shape& shape, const Moves& moves) {
  nlohmann::json json = nlohmann::json::array();
  for (const Run& run : moves) json.push_back({shape.directions[run.direction].english, run.steps});
  return json;
}

nlohmann::json json_of(const Shape& shape, const std::vector<Leg>& legs) {
  nlohmann::json json = nlohmann::json::array();
  for (const Leg& leg : legs) json.push_back({json_of(shape, leg.moves), leg.item});
  return json;
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  Given puzzle{.shape = &shapes()[draw.below(shapes().size())], .side = knobs["side"]};
  const Shape& shape = *puzzle.shape;
  std::vector<Point> points = points_of(shape, puzzle.side);
  const auto walk = static_cast<size_t>(knobs["walk"]),
             unknown = static_cast<size_t>(draw.chance(50) ? knobs["unknown"] : 0);
  if (points.size() < walk + unknown + 2) return std::nullopt;
  draw.shuffle(points);
  std::vector<Word> items(things().begin(), things().end());
  draw.shuffle(items);
  // points[i] holds items[i]; the first walk + 1 are met at first, the next ones after a jump, and the one
  // after these is jumped to.
  const auto item = [&](size_t i) { return std::string(items[i].english); };
  puzzle.start = item(0);
  Point at = points[0];
  for (size_t i = 1; i <= walk; ++i) {
    puzzle.walk.push_back({{}, item(i)});
    go(shape, puzzle.side, at, points[i], puzzle.walk.back().moves, draw);
  }
  if (unknown > 0) {
    std::vector<size_t> met = {draw.below(walk + 1)};
    for (size_t i = 0; i < unknown; ++i) met.push_back(walk + 1 + i);
    draw.shuffle(met);
    const Point landing = points[walk + unknown + 1];
    at = landing;
    for (const size_t i : met) {
      puzzle.jump.push_back({{}, item(i)});
      go(shape, puzzle.side, at, points[i], puzzle.jump.back().moves, draw);
    }
    if (draw.chance(50)) go(shape, puzzle.side, at, landing, puzzle.back, draw);
  }
  for (int64_t i = 0; i < kHiddenStops; ++i)
    go(shape, puzzle.side, at, points[draw.below(points.size())], puzzle.last, draw);
  const size_t end = draw.below(walk + 1 + unknown);
  if (at == points[end]) return std::nullopt;
  go(shape, puzzle.side, at, points[end], puzzle.last, draw);
  nlohmann::json given = {{"shape", shape.name},
                          {"side", puzzle.side},
                          {"start", puzzle.start},
                          {"walk", json_of(shape, puzzle.walk)},
                          {"jump", json_of(shape, puzzle.jump)},
                          {"back", json_of(shape, puzzle.back)},
                          {"last", json_of(shape, puzzle.last)}};
  return Puzzle{.given = std::move(given), .solution = item(end)};
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const std::optional<std::string> wanted = answer_of(read_given(given));
  if (!wanted) refuse_given(kTask.key, "a walk that ends where something was met", given);
  const std::optional<std::string_view> answer = english_word(payload);
  if (!answer) return {VerdictCode::kUnreadable, "not the name of one thing"};
  if (*answer != *wanted) return {VerdictCode::kRuleBroken, fmt::format("the {} is not there", *answer)};
  return {};
}

std::string canonical(const nlohmann::json& given) {
  // Things are names only: they count in the order in which they are met.
  const Given puzzle = read_given(given);
  std::vector<std::string> order = {puzzle.start};
  std::string text = fmt::format("{} {}", puzzle.shape->name, puzzle.side);
  const auto add = [&](const Moves& moves) {
    for (const Run& run : moves)
      text += fmt::format(" {}{}", run.direction, std::string(static_cast<size_t>(run.steps), '+'));
  };
  for (const auto* legs : {&puzzle.walk, &puzzle.jump}) {
    for (const Leg& leg : *legs) {
      add(leg.moves);
      const auto found = std::ranges::find(order, leg.item) - order.begin();
      if (static_cast<size_t>(found) == order.size()) order.push_back(leg.item);
      text += fmt::format(" = {};", found);
    }
    text += "/";
  }
  add(puzzle.back);
  text += "/";
  add(puzzle.last);
  return text;
}

Puzzle told_in(Puzzle puzzle, Language language) {
  puzzle.solution = in_language(puzzle.solution, language);
  return puzzle;
}

Moves read_moves(const nlohmann::json& json, const Shape& shape) {
  Moves moves;
  for (const nlohmann::json& run : list_of(json, 0, kMostRuns, "moves", kTask.key)) {
    list_of(run, 2, 2, "a move", kTask.key);
    const std::string& name = text_of(run[0], "a direction", kTask.key);
    const auto found = std::ranges::find(shape.directions, name, &Direction::english);
    if (found == shape.directions.end()) refuse_given(kTask.key, "directions that the shape has", run);
    moves.push_back({static_cast<size_t>(found - shape.directions.begin()),
                     integer_of(run[1], 1, kLongestSide, "steps", kTask.key)});
  }
  return moves;
}

std::string read_item(const nlohmann::json& json) {
  const std::string& item = text_of(json, "a thing", kTask.key);
  if (!word_in(item, Language::kEnglish)) refuse_given(kTask.key, "things that our table holds", json);
  return item;
}

std::vector<Leg> read_legs(const nlohmann::json& json, const Shape& shape, const char* what) {
  std::vector<Leg> legs;
  for (const nlohmann::json& leg : list_of(json, 0, kMostLegs, what, kTask.key)) {
    list_of(leg, 2, 2, what, kTask.key);
    legs.push_back({read_moves(leg[0], shape), read_item(leg[1])});
  }
  return legs;
}

}  // namespace

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {"square",
       {{"right", "右", 1, 0}, {"left", "左", -1, 0}, {"down", "下", 0, 1}, {"up", "上", 0, -1}},
       [](Point point, int64_t side) {
         return point.x >= 0 && point.x <= side && point.y >= 0 && point.y <= side;
       }},
      {"triangle",
       {{"right", "右", 1, 0},
        {"left", "左", -1, 0},
        {"down-left", "左下", 0, 1},
        {"down-right", "右下", 1, 1},
        {"up-left", "左上", -1, -1},
        {"up-right", "右上", 0, -1}},
       [](Point point, int64_t side) { return point.x >= 0 && point.x <= point.y && point.y <= side; }},
      {"diamond",
       {{"down-right", "右下", 1, 0},
        {"up-left", "左上", -1, 0},
        {"down-left", "左下", 0, 1},
        {"up-right", "右上", 0, -1}},
       [](Point point, int64_t side) {
         return point.x >= 0 && point.x <= side && point.y >= 0 && point.y <= side;
       }}};
  return all;
}

Given read_given(const nlohmann::json& given) {
  Given puzzle;
  const std::string& name = text_of(member_of(given, "shape", kTask.key), "\"shape\"", kTask.key);
  for (const Shape& shape : shapes()) {
    if (shape.name == name) puzzle.shape = &shape;
  }
  if (puzzle.shape == nullptr) refuse_given(kTask.key, "\"shape\": square, triangle or diamond", given);
  puzzle.side = integer_of(member_of(given, "side", kTask.key), 1, kLongestSide, "\"side\"", kTask.key);
  puzzle.start = read_item(member_of(given, "start", kTask.key));
  puzzle.walk = read_legs(member_of(given, "walk", kTask.key), *puzzle.shape, "\"walk\"");
  puzzle.jump = read_legs(member_of(given, "jump", kTask.key), *puzzle.shape, "\"jump\"");
  puzzle.back = read_moves(member_of(given, "back", kTask.key), *puzzle.shape);
  puzzle.last = read_moves(member_of(given, "last", kTask.key), *puzzle.shape);
  return puzzle;
}

std::optional<std::string> answer_of(const Given& given) {
  // Points relative to the start, and after a jump to the place jumped to.
  std::vector<std::pair<Point, std::string>> known = {{{0, 0}, given.start}}, after;
  Point at;
  for (const Leg& leg : given.walk) known.emplace_back(at = moved(at, *given.shape, leg.moves), leg.item);
  if (!given.jump.empty()) {
    at = {};
    std::optional<Point> landing;
    for (const Leg& leg : given.jump) {
      after.emplace_back(at = moved(at, *given.shape, leg.moves), leg.item);
      const auto seen = std::ranges::find(known, leg.item, &std::pair<Point, std::string>::second);
      if (seen != known.end()) landing = Point{seen->first.x - at.x, seen->first.y - at.y};
    }
    if (!landing) return std::nullopt;
    for (const auto& [point, item] : after)
      known.emplace_back(Point{point.x + landing->x, point.y + landing->y}, item);
    at = {at.x + landing->x, at.y + landing->y};
    at = moved(at, *given.shape, given.back);
  }
  at = moved(at, *given.shape, given.last);
  const auto found = std::ranges::find(known, at, &std::pair<Point, std::string>::first);
  if (found == known.end()) return std::nullopt;
  return found->second;
}

const TaskEntry kTask = {.key = "space_reasoning",
                         .title = "Say what is where a walk over a grid ends",
                         .version = 2,
                         .uniqueness = Uniqueness::kComputed,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = nullptr,
                         .canonical = canonical,
                         .in_language = told_in};

}  // namespace longhaul::puzzles::space_reasoning
