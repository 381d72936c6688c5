// The bytes of puzzles, which nothing may change but a task's version: hashes of 20 records of each task at
// three levels, in both languages. Compilers, their options and numbers of threads must not matter
// (docs/puzzles.md); GCC 12 made these values.
#include <gtest/gtest.h>

#include <map>

#include "base/checksum.h"
#include "puzzles/maker.h"
#include "puzzles/records.h"
#include "puzzles/tasks.h"

namespace longhaul::puzzles {
namespace {

struct Golden {
  int64_t version = 0;
  uint64_t hash = 0;
  bool operator==(const Golden&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Golden& golden) {
  return out << fmt::format("{{{}, 0x{:016x}}}", golden.version, golden.hash);
}

const std::map<std::string, Golden>& goldens() {
  static const std::map<std::string, Golden> all = {
      {"arc_agi", {3, 0xd399a4a2afda273b}},
      {"arrow_maze", {2, 0x90aca6ec41ce9f5e}},
      {"boolean_expressions", {2, 0x101798df4dc969a6}},
      {"buggy_tables", {2, 0x85d273d5cba5a586}},
      {"calcudoko", {2, 0x9ef101965f0c6993}},
      {"campsite", {2, 0xf31659a2e8b2a520}},
      {"cipher", {3, 0x571282cd80a0e509}},
      {"cryptarithm", {2, 0xecaab45d907288a4}},
      {"dyck_language", {2, 0x8efebb922ef99008}},
      {"dyck_language_errors", {2, 0x2f773614c62b323c}},
      {"dyck_language_reasoning_errors", {2, 0xfabc56eaca8b1d65}},
      {"futoshiki", {2, 0x5a069c88171fdac9}},
      {"goods_exchange", {2, 0xe2601e06e13758d9}},
      {"kukurasu", {2, 0x038851a5a9761dee}},
      {"math_path", {2, 0xc6210678cc3f4988}},
      {"mathador", {2, 0xda6f2c44787f4b84}},
      {"minesweeper", {3, 0x7a338a6882a2816d}},
      {"norinori", {2, 0x5549674c499e5140}},
      {"number_wall", {2, 0xee08dfca7e13fc89}},
      {"numbrix", {2, 0x0eb0956598189445}},
      {"object_counting", {2, 0xf6c94ae6145755f0}},
      {"object_properties", {3, 0xf9f02ac73b1c2e47}},
      {"operation", {2, 0x52039f69aaa477de}},
      {"skyscraper_puzzle", {2, 0x1a7f79c26fd658e5}},
      {"space_reasoning", {2, 0xb0c0c73de670a0ad}},
      {"space_reasoning_tree", {2, 0xd93ee7b78b3d8016}},
      {"star_placement_puzzle", {2, 0xd9684302e070db8e}},
      {"sudoku", {2, 0x257cfc5f30a810b6}},
      {"survo", {2, 0x95921aa2dd4bb2fc}},
      {"time_sequence", {2, 0x8a6255913b4cf790}},
      {"web_of_lies", {2, 0xd886c4a9f906e4d2}},
      {"word_sorting", {3, 0x74e245ccc847d1da}},
      {"word_sorting_mistake", {3, 0x989855829bf3f3f3}},
      {"wordscapes", {3, 0xb85ab8841b84a65a}},
      {"zebra_puzzle", {2, 0xc4e6f47e1b43e085}},
  };
  return all;
}

std::string records_of(const TaskEntry& task) {
  std::string bytes;
  for (const int64_t level : {0, 5, 10}) {
    const KnobValues knobs = at_level(task.knobs, level);
    for (int64_t index = 0; index < 20; ++index) {
      const std::optional<MadePuzzle> made = make_puzzle(task, knobs, 2026, index);
      if (!made) {
        bytes += "none\n";
        continue;
      }
      const Language language = index % 4 == 3 ? Language::kChinese : Language::kEnglish;
      bytes += to_record(*made, {&task, knobs, level, 2026, language}).dump() + "\n";
    }
  }
  return bytes;
}

TEST(PuzzleBytes, AreWhatTheyWere) {
  EXPECT_EQ(goldens().size(), tasks().size());
  for (const TaskEntry* task : tasks()) {
    const auto known = goldens().find(std::string(task->key));
    const Golden now{task->version, xxh3(records_of(*task))};
    EXPECT_EQ(known == goldens().end() ? Golden{} : known->second, now)
        << task->key << ": where a puzzle changes, its task's version must rise";
  }
}

}  // namespace
}  // namespace longhaul::puzzles
