#include "puzzles/engine/words/words.h"
#include "puzzles/space_reasoning/space_reasoning.h"

namespace longhaul::puzzles::space_reasoning {
namespace {

std::string moves_text(const Given& puzzle, const Moves& moves, bool chinese) {
  std::string text;
  for (const Run& run : moves) {
    const Direction& direction = puzzle.shape->directions[run.direction];
    if (chinese) {
      text += fmt::format("{}向{}走{}步", text.empty() ? "" : "，再", direction.chinese, run.steps);
    } else {
      text += fmt::format("{}{} step{} {}", text.empty() ? "" : ", then ", run.steps,
                          run.steps == 1 ? "" : "s", direction.english);
    }
  }
  return text;
}

std::string grid_text(const Given& puzzle, bool chinese) {
  const int64_t side = puzzle.side, points = side + 1;
  if (puzzle.shape->name == "square") {
    return chinese
               ? fmt::format("方格：{0}行，每行{0}个点。从一个点可以向上、下、左、右走到相邻的点。", points)
               : fmt::format(
                     "The grid is square: {0} rows of {0} points. From a point one can step up, down, left "
                     "and right to the next point.",
                     points);
  }
  if (puzzle.shape->name == "triangle") {
    return chinese ? fmt::format(
                         "三角形格：从上到下共{}行，各行依次有1到{}"
                         "个点，行行居中。从一个点可以向左、右走到同一行相邻的点，也可以向左上、右上、左下、"
                         "右下走到相邻行的最近的点。",
                         points, points)
                   : fmt::format(
                         "The grid is a triangle: {0} rows, with 1 point in the topmost row and one more in "
                         "each row below, up to {0}, all rows centred. "
                         "From a point one can step left and right to the next point of its row, and "
                         "up-left, up-right, down-left and down-right to the "
                         "nearest points of the rows above and below.",
                         points);
  }
  return chinese
             ? fmt::format(
                   "菱形格：从上到下共{}行，各行的点数从1逐行增加到{}"
                   "，再逐行减少到1，行行居中。从一个点可以向左上、右上、左下、右下走到相邻行的最近的点。",
                   2 * side + 1, points)
             : fmt::format(
                   "The grid is a diamond: {} rows, whose numbers of points go up from 1 to {} one by one "
                   "and down to 1 again, all rows centred. "
                   "From a point one can step up-left, up-right, down-left and down-right to the nearest "
                   "points of the rows above and below.",
                   2 * side + 1, points);
}

std::string legs_text(const Given& puzzle, const std::vector<Leg>& legs, bool chinese) {
  std::string text;
  for (const Leg& leg : legs) {
    const std::string moves = moves_text(puzzle, leg.moves, chinese);
    text += chinese ? fmt::format("{}，那里有{}。\n", moves, in_language(leg.item, Language::kChinese))
                    : fmt::format("Go {}: there is {}.\n", moves, with_article(leg.item));
  }
  return text;
}

const PromptParts& english() {
  static const PromptParts parts = {
      .openings = {"Find your way on a grid.", "Imagine that you walk over a grid of points.",
                   "Follow this walk and say where it leads.",
                   "A walk over a grid is described. Draw its map in your mind.", "Where do you end up?",
                   "Here is a walk from point to point.", "Please trace this walk.",
                   "Keep track of where things are while you walk."},
      .rules = {"There is one thing at each point of the grid, and no two things are alike. You see the "
                "thing at a point where you are told of it; things at points that "
                "you only pass are not told. Nothing moves but you.",
                "Rules: each point of the grid holds exactly one thing, all of them different, and things "
                "stay where they are. Only at the points "
                "named are you told what is there."},
      .formats = {"Answer with the thing at the last point, inside \\boxed{}.",
                  "Write the name of the thing that is there in a box: \\boxed{thing}."}};
  return parts;
}

const PromptParts& chinese() {
  static const PromptParts parts = {
      .openings = {"请在格点上找路。", "请想象你在格点上行走。", "请跟着这段路线，说出它通向哪里。",
                   "下面描述了在格点上的一段行走，请在心里画出地图。", "你最后到了哪里？",
                   "下面是从一个点到另一个点的行走。", "请追踪这段路线。", "行走时请记住东西都在哪里。"},
      .rules = {"格子的每个点上有一样东西，且没有两样东西相同。在说到某个点时你能看到那里的东西；只是路过的点"
                "上有什么没有说明。除你之外什么都不移动。",
                "规则：格子的每个点上恰好有一样东西，各不相同，东西都留在原处。只有在说明的点上才告诉你那里有"
                "什么。"},
      .formats = {"请在 \\boxed{} 中回答最后那个点上的东西。",
                  "请把那里的东西的名称写在框里：\\boxed{东西}。"}};
  return parts;
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const Given puzzle = read_given(given);
  const bool is_chinese = language == Language::kChinese;
  std::string board = grid_text(puzzle, is_chinese) + "\n\n";
  board += is_chinese ? fmt::format("你从一个有{}的点出发。\n", in_language(puzzle.start, language))
                      : fmt::format("You start at a point where there is {}.\n", with_article(puzzle.start));
  board += legs_text(puzzle, puzzle.walk, is_chinese);
  if (!puzzle.jump.empty()) {
    board += is_chinese
                 ? "然后你被放到格子上的另一个点，你不知道是哪一个。\n"
                 : "Then you are put down at another point of the grid, and you do not know at which.\n";
    board += legs_text(puzzle, puzzle.jump, is_chinese);
  }
  if (!puzzle.back.empty()) {
    const std::string moves = moves_text(puzzle, puzzle.back, is_chinese);
    board += is_chinese ? fmt::format("{}，你回到了被放下的那个点。\n", moves)
                        : fmt::format("Go {}: you are back where you were put down.\n", moves);
  }
  const std::string moves = moves_text(puzzle, puzzle.last, is_chinese);
  board += is_chinese ? fmt::format("最后，{}。那里有什么？", moves)
                      : fmt::format("At last go {}. Which thing is there?", moves);
  return prompt_of(is_chinese ? chinese() : english(), board, which);
}

}  // namespace longhaul::puzzles::space_reasoning
