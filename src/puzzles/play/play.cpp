#include "puzzles/play/play.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/text.h"
#include "base/text/utf8.h"
#include "puzzles/engine/answers/answer.h"
#include "puzzles/engine/answers/literal.h"
#include "puzzles/play/picture.h"

namespace longhaul::puzzles {
namespace {

constexpr std::string_view kHelp =
    "Type your answer as the puzzle asks for it, or the rows of a grid line by line (1 2 3 4) and then an "
    "empty line.\n"
    "hint: a part of the solution   solution: all of it   help: this   quit: end\n";

bool is_grid_puzzle(const PlayGame& game) {
  const auto solution = read_grid(game.puzzle.solution);
  return solution && solution->size() > 1;
}

// Whether lines are still to come before this can be an answer. An empty line ends any.
bool wants_more(const std::string& text, bool grid) {
  int64_t open = 0;
  for (const char c : text)
    open += c == '[' || c == '(' || c == '{' ? 1 : c == ']' || c == ')' || c == '}' ? -1 : 0;
  const std::string_view typed = trimmed(text);
  if (grid) return !typed.starts_with('[') || open > 0;
  return (typed.starts_with('[') || typed.starts_with('{')) && open > 0;
}

// "1 2\n3 4" → "[[1 2,3 4]]", which all readers of grids take.
std::string as_grid(std::string text) {
  text = trimmed(text);
  if (text.starts_with('[')) return text;
  std::ranges::replace(text, '\n', ',');
  return "[[" + text + "]]";
}

class Player {
 public:
  Player(const PlayGame& game, const ReadLine& read_line,
         const std::function<void(const std::string&)>& write)
      : game_(game), read_line_(read_line), write_(write), grid_(is_grid_puzzle(game)) {}

  PlayedPuzzle run() {
    write_(game_.question + "\n\n");
    if (const std::string picture = picture_of(game_.task->key, game_.puzzle.given); !picture.empty())
      write_(picture + "\n");
    write_(std::string(kHelp));
    while (!played_.solved) {
      const std::optional<std::string> first = read_line_();
      if (!first) {
        write_("\nThe input has ended; the puzzle stays unsolved.\n");
        break;
      }
      const std::string_view word = trimmed(*first);
      if (word == "quit") break;
      if (!word.empty() && !is_command(word)) judge(read_answer(*first));
    }
    return played_;
  }

 private:
  bool is_command(std::string_view word) {
    if (word == "hint") {
      write_(hint_of(game_, played_.hints++) + "\n");
    } else if (word == "solution") {
      write_((game_.task->uniqueness == Uniqueness::kAny ? "One of the solutions: " : "The solution: ") +
             game_.puzzle.solution + "\n");
    } else if (word == "help") {
      write_(std::string(kHelp));
    } else {
      return false;
    }
    return true;
  }

  std::string read_answer(std::string text) {
    while (wants_more(text, grid_) && text.size() <= kLongestPayload) {
      const std::optional<std::string> line = read_line_();
      if (!line || trimmed(*line).empty()) break;
      text += "\n" + *line;
    }
    return text;
  }

  void judge(const std::string& text) {
    ++played_.answers;
    const std::optional<std::string> payload = payload_without_tags(grid_ ? as_grid(text) : text);
    const Verdict verdict =
        payload ? game_.task->verify(game_.puzzle.given, *payload)
                : Verdict{VerdictCode::kNoPayload, fmt::format("longer than {} bytes", kLongestPayload)};
    played_.solved = verdict.accepted();
    if (played_.solved) {
      write_(fmt::format("Right, with {} and {}.\n", counted(played_.answers, "answer"),
                         counted(played_.hints, "hint")));
    } else {
      write_(fmt::format("Not right ({}): {}.\n", name_of(verdict.code), printable(verdict.text)));
    }
  }

  const PlayGame& game_;
  const ReadLine& read_line_;
  const std::function<void(const std::string&)>& write_;
  bool grid_;
  PlayedPuzzle played_;
};

}  // namespace

PlayedPuzzle play(const PlayGame& game, const ReadLine& read_line,
                  const std::function<void(const std::string&)>& write) {
  return Player(game, read_line, write).run();
}

std::string hint_of(const PlayGame& game, int64_t number) {
  const std::string& solution = game.puzzle.solution;
  const auto grid = read_grid(solution);
  if (grid && grid->size() > 1) {
    const std::optional<TextGrid> given = grid_of_given(game.puzzle.given);
    int64_t open = 0;
    for (size_t row = 0; row < grid->size(); ++row) {
      for (size_t column = 0; column < (*grid)[row].size(); ++column) {
        const std::string_view cell = (*grid)[row][column];
        const bool is_given =
            given && row < given->size() && column < (*given)[row].size() && (*given)[row][column] == cell;
        if (!is_given && open++ == number)
          return fmt::format("Row {}, column {} is {}.", row + 1, column + 1, cell);
      }
    }
    return "Every cell has been told.";
  }
  size_t bytes = 0;
  for (int64_t letters = 0; letters <= number && bytes < solution.size(); ++letters)
    bytes +=
        static_cast<size_t>(decode_utf8(solution.data() + bytes, solution.data() + solution.size()).length);
  if (bytes >= solution.size()) return "The whole answer: " + solution;
  return fmt::format("The answer begins with {}", solution.substr(0, bytes));
}

}  // namespace longhaul::puzzles
