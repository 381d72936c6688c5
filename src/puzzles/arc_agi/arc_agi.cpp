#include "puzzles/arc_agi/arc_agi.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/error.h"
#include "base/text/json.h"
#include "puzzles/arc_agi/rules.h"
#include "puzzles/engine/given.h"

namespace longhaul::puzzles::arc_agi {
namespace {

constexpr std::string_view kKey = "arc_agi";
constexpr size_t kMostCells = 850;  // of all grids of a puzzle, so that the prompt stays below 2,000 tokens
constexpr Knob kKnobs[] = {
    {"rules", 1, 2, 1, 2, "rules that are applied one after the other"},
    {"side", 3, 20, 4, 11, "rows and columns of an input at most"},
    {"objects", 1, 12, 2, 6, "objects of an input"},
    {"demonstrations", 2, 8, 4, 3, "pairs that are shown at least"},
    {"noise_percent", 0, 20, 0, 8, "percent of the cells that are coloured by chance besides"}};

// Rectangles, whole or hollow, and single cells in up to four colours.
NumberGrid drawn_input(const KnobValues& knobs, bool panels, Draw& draw) {
  const int64_t least = std::max<int64_t>(3, knobs["side"] * 2 / 3),
                rows = draw.between(least, knobs["side"]);
  const int64_t columns =
      panels ? draw.between(1, (knobs["side"] - 1) / 2) * 2 + 1 : draw.between(least, knobs["side"]);
  NumberGrid grid(rows, columns);
  std::array<int64_t, 4> colours{};
  for (int64_t& colour : colours) colour = draw.between(1, 9);
  for (int64_t i = 0; i < knobs["objects"]; ++i) {
    const int64_t height = draw.between(1, std::max<int64_t>(1, rows / 2)),
                  width = draw.between(1, std::max<int64_t>(1, columns / 2));
    const int64_t top = draw.between(0, rows - height), left = draw.between(0, columns - width),
                  colour = draw.pick(colours);
    const bool hollow = draw.chance(50);
    for (int64_t r = top; r < top + height; ++r) {
      for (int64_t c = left; c < left + width; ++c) {
        const bool edge = r == top || c == left || r + 1 == top + height || c + 1 == left + width;
        if (!hollow || edge) grid.at(r, c) = colour;
      }
    }
  }
  for (int64_t& cell : grid.cells) {
    if (draw.chance(knobs["noise_percent"])) cell = draw.pick(colours);
  }
  if (panels) {
    const int64_t wall = draw.between(1, 9);
    for (int64_t r = 0; r < rows; ++r) grid.at(r, columns / 2) = wall;
  }
  return grid;
}

// A tile of two to six cells that repeats, with a rectangle of it hidden.
NumberGrid drawn_mosaic(const KnobValues& knobs, Draw& draw) {
  const int64_t least = std::max<int64_t>(3, knobs["side"] * 2 / 3);
  NumberGrid grid(draw.between(least, knobs["side"]), draw.between(least, knobs["side"])),
      tile(draw.between(1, 2), draw.between(2, 3));
  for (int64_t& cell : tile.cells) cell = draw.between(1, 9);
  for (int64_t r = 0; r < grid.rows; ++r) {
    for (int64_t c = 0; c < grid.columns; ++c) grid.at(r, c) = tile.at(r % tile.rows, c % tile.columns);
  }
  const int64_t height = draw.between(1, (grid.rows + 1) / 2),
                width = draw.between(1, (grid.columns + 1) / 2);
  const int64_t top = draw.between(0, grid.rows - height), left = draw.between(0, grid.columns - width);
  for (int64_t r = top; r < top + height; ++r) {
    for (int64_t c = left; c < left + width; ++c) grid.at(r, c) = 0;
  }
  return grid;
}

// None: a rule says nothing of the input, or changes nothing.
std::optional<Pair> drawn_pair(const std::vector<const Rule*>& sequence, const KnobValues& knobs,
                               Draw& draw) {
  const std::string& first = sequence[0]->name;
  Pair pair{.input = first == "mosaic" ? drawn_mosaic(knobs, draw)
                                       : drawn_input(knobs, first.starts_with("panels"), draw)};
  NumberGrid now = pair.input;
  for (const Rule* rule : sequence) {
    std::optional<NumberGrid> next = rule->apply(now);
    if (!next || *next == now) return std::nullopt;
    now = std::move(*next);
  }
  if (now == pair.input || std::ranges::count(now.cells, 0) == static_cast<int64_t>(now.cells.size()))
    return std::nullopt;
  pair.output = std::move(now);
  return pair;
}

nlohmann::json pair_json(const Pair& pair) {
  return {{"input", grid_json(pair.input)}, {"output", grid_json(pair.output)}};
}

nlohmann::json given_of(const Demonstrated& puzzle) {
  nlohmann::json train = nlohmann::json::array();
  for (const Pair& pair : puzzle.train) train.push_back(pair_json(pair));
  return {{"train", train}, {"test", {pair_json(puzzle.test)}}};
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  std::vector<const Rule*> sequence;
  for (int64_t i = 0; i < knobs["rules"]; ++i) sequence.push_back(&rules()[draw.below(rules().size())]);
  std::vector<Pair> pairs;
  const auto wanted = static_cast<size_t>(knobs["demonstrations"]) + 1;
  for (int attempt = 0; attempt < 60 && pairs.size() < wanted; ++attempt) {
    std::optional<Pair> pair = drawn_pair(sequence, knobs, draw);
    if (pair && std::ranges::none_of(pairs, [&](const Pair& other) { return other.input == pair->input; }))
      pairs.push_back(std::move(*pair));
  }
  if (pairs.size() < wanted) return std::nullopt;
  const Demonstrated puzzle{std::vector<Pair>(pairs.begin() + 1, pairs.end()), pairs[0]};
  size_t cells = puzzle.test.input.cells.size();
  std::vector<Demonstration> shown;
  for (const Pair& pair : puzzle.train) {
    cells += pair.input.cells.size() + pair.output.cells.size();
    shown.push_back({&pair.input, &pair.output});
  }
  // Everything that our rules can explain the demonstrations with must say the same of the test.
  if (cells > kMostCells || !agree_on(shown, puzzle.test.input, puzzle.test.output, knobs["rules"]))
    return std::nullopt;
  return Puzzle{.given = given_of(puzzle), .solution = grid_payload(puzzle.test.output)};
}

NumberGrid colours_of(const nlohmann::json& json, std::string_view what) {
  NumberGrid grid = number_grid(json, fmt::format("{} of {}", what, kKey), kLongestSide);
  if (std::ranges::any_of(grid.cells, [](int64_t cell) { return cell < 0 || cell > 9; }))
    refuse_given(kKey, "colours from 0 to 9", json);
  return grid;
}

Pair pair_of(const nlohmann::json& json) {
  return {colours_of(member_of(json, "input", kKey), "\"input\""),
          colours_of(member_of(json, "output", kKey), "\"output\"")};
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const Demonstrated puzzle = read_given(given);
  const std::optional<NumberGrid> answer = answered_grid(payload);
  if (!answer) return {VerdictCode::kUnreadable, "no grid of whole numbers in rows of one length"};
  const NumberGrid& right = puzzle.test.output;
  if (answer->rows != right.rows || answer->columns != right.columns)
    return {VerdictCode::kShape,
            fmt::format("{} rows of {} cells are not the size of the output", answer->rows, answer->columns)};
  for (int64_t r = 0; r < right.rows; ++r) {
    for (int64_t c = 0; c < right.columns; ++c) {
      if (answer->at(r, c) != right.at(r, c))
        return {VerdictCode::kRuleBroken, fmt::format("row {}, column {} has another colour", r + 1, c + 1)};
    }
  }
  return {};
}

// Colours are renamed in the order in which they come; 0 stays.
std::string canonical(const nlohmann::json& given) {
  std::string text = given_of(read_given(given)).dump(), names;
  for (char& c : text) {
    if (c < '1' || c > '9') continue;
    if (names.find(c) == std::string::npos) names += c;
    c = static_cast<char>('a' + static_cast<char>(names.find(c)));
  }
  return text;
}

}  // namespace

Demonstrated read_given(const nlohmann::json& given) {
  Demonstrated puzzle;
  for (const nlohmann::json& pair : list_of(member_of(given, "train", kKey), 1, 20, "\"train\"", kKey))
    puzzle.train.push_back(pair_of(pair));
  puzzle.test = pair_of(list_of(member_of(given, "test", kKey), 1, 1, "\"test\"", kKey)[0]);
  return puzzle;
}

Puzzle varied(const Puzzle& puzzle, Draw& draw) {
  Demonstrated now = read_given(puzzle.given);
  std::array<int64_t, 9> colours{};
  std::iota(colours.begin(), colours.end(), 1);
  draw.shuffle(colours);
  const uint64_t turns = draw.below(4), mirrored = draw.below(2);
  draw.shuffle(now.train);
  if (const uint64_t test = draw.below(now.train.size() + 1); test < now.train.size())
    std::swap(now.train[test], now.test);
  const auto change = [&](NumberGrid& grid) {
    for (int64_t& cell : grid.cells) cell = cell == 0 ? 0 : colours[static_cast<size_t>(cell - 1)];
    for (uint64_t turn = 0; turn < turns; ++turn) {
      NumberGrid next(grid.columns, grid.rows);
      for (int64_t r = 0; r < grid.rows; ++r) {
        for (int64_t c = 0; c < grid.columns; ++c) next.at(c, grid.rows - 1 - r) = grid.at(r, c);
      }
      grid = std::move(next);
    }
    for (int64_t r = 0; mirrored != 0 && r < grid.rows; ++r)
      std::reverse(grid.cells.begin() + r * grid.columns, grid.cells.begin() + (r + 1) * grid.columns);
  };
  for (Pair& pair : now.train) change(pair.input), change(pair.output);
  change(now.test.input), change(now.test.output);
  return {.given = given_of(now), .solution = grid_payload(now.test.output)};
}

std::vector<Puzzle> read_public_file(const std::string& text, const std::string& where) {
  constexpr JsonRules kRules = {
      .code = ExitCode::kData,
      .what = "unusable ARC file",
      .hint = "one object {\"train\": [{\"input\", \"output\"}, …], \"test\": [{\"input\", \"output\"}, …]}",
      .depth = 8};
  const nlohmann::json root = parse_json(text, where, kRules);
  std::vector<Puzzle> puzzles;
  try {
    for (const nlohmann::json& test : list_of(member_of(root, "test", kKey), 1, 20, "\"test\"", kKey)) {
      nlohmann::json given = {{"train", member_of(root, "train", kKey)}, {"test", {test}}};
      std::string solution = grid_payload(read_given(given).test.output);
      puzzles.push_back({.given = std::move(given), .solution = std::move(solution)});
    }
  } catch (const Error& error) {
    ErrorFields fields = error.fields();
    fields.where = where + (fields.where.empty() ? "" : ", " + fields.where);
    throw Error(fields);
  }
  return puzzles;
}

const TaskEntry kTask = {.key = "arc_agi",
                         .title = "ARC: apply the rule that demonstrations show",
                         .version = 3,
                         .uniqueness = Uniqueness::kComputed,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = nullptr,
                         .canonical = canonical,
                         .read_public_file = read_public_file};

}  // namespace longhaul::puzzles::arc_agi
