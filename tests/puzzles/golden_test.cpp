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
      {"arc_agi", {2, 0xf72ac59f6e9de162}},
      {"arrow_maze", {1, 0x60a79ab8415f9028}},
      {"boolean_expressions", {1, 0x51a9ffb5956a7904}},
      {"buggy_tables", {1, 0xec079d303cc86838}},
      {"calcudoko", {1, 0x2c906bc099ef3644}},
      {"campsite", {1, 0x67c0833e0d63bd5f}},
      {"cipher", {2, 0xf4a710432a4c1bfd}},
      {"cryptarithm", {1, 0x51ab15985e2c8ab2}},
      {"dyck_language", {1, 0x88a31eed2ec479a1}},
      {"dyck_language_errors", {1, 0x7f73cdd881f7b814}},
      {"dyck_language_reasoning_errors", {1, 0xc2b5ce2f569fe22c}},
      {"futoshiki", {1, 0xe9109070dd0f23b4}},
      {"goods_exchange", {1, 0x80888c9806769481}},
      {"kukurasu", {1, 0xe4d44cc2462390a2}},
      {"math_path", {1, 0x375a78fb478f49aa}},
      {"mathador", {1, 0x1b1e72908f0febf9}},
      {"minesweeper", {2, 0x7593a5855debdb1a}},
      {"norinori", {1, 0x977481de796af2aa}},
      {"number_wall", {1, 0x696ca37241f603e4}},
      {"numbrix", {1, 0xa3b12e0423a4a574}},
      {"object_counting", {1, 0x74277b446605f556}},
      {"object_properties", {2, 0x6cf8b398774b7907}},
      {"operation", {1, 0xc5dd9fbad087b9ed}},
      {"skyscraper_puzzle", {1, 0x22681e7f88f9e98b}},
      {"space_reasoning", {1, 0xe5a67129179788c9}},
      {"space_reasoning_tree", {1, 0xef27b9e6f7074a00}},
      {"star_placement_puzzle", {1, 0x08b5423fcbc2fb5a}},
      {"sudoku", {1, 0xf54c6e9a5095af3c}},
      {"survo", {1, 0x37a91b62bad86d19}},
      {"time_sequence", {1, 0x13fd2f7d50666f97}},
      {"web_of_lies", {1, 0x369f487cddbb270c}},
      {"word_sorting", {2, 0xef508bf06571a649}},
      {"word_sorting_mistake", {2, 0xbb96ab810f21b43f}},
      {"wordscapes", {2, 0x0362d87471f934da}},
      {"zebra_puzzle", {1, 0x8254b9e0d67278dd}},
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
