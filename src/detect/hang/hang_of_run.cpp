#include <algorithm>

#include "base/process/process_threads.h"
#include "detect/hang/hang.h"
#include "detect/hang/stack_text.h"

namespace longhaul::detect {

HangReport hang_of_run(const std::filesystem::path& run_folder) {
  const std::vector<observe::BoardReader> boards = observe::boards_of_run(run_folder);
  std::vector<HangRank> ranks;
  for (const observe::BoardReader& board : boards)
    ranks.push_back(hang_rank(board, !threads_of(board.progress().pid).empty()));
  if (boards.empty()) {
    for (observe::RankRecords& calls : observe::read_calls(run_folder))
      ranks.push_back({.progress = {.rank = calls.rank}, .calls = std::move(calls)});
  }
  HangReport report = analyse_hang(ranks);
  constexpr size_t kAsked = 4;  // a second each where they do not answer
  for (size_t i = 0; i < std::min(kAsked, report.suspects.size()); ++i) {
    for (const observe::BoardReader& board : boards) {
      if (board.progress().rank == report.suspects[i].rank)
        report.suspects[i].threads = threads_of_rank(board);
    }
  }
  return report;
}

}  // namespace longhaul::detect
