#include "comm/gloo/rank_processes.h"

#include <fmt/format.h>

#include <sstream>

#include "base/error.h"
#include "base/files/file.h"
#include "base/machine/kernel_file.h"
#include "base/net/network.h"
#include "base/process/launch.h"
#include "comm/placement.h"

namespace longhaul::comm {

std::optional<RankFailure> failure_of(const RankProcesses& processes) {
  const uint16_t port = free_port();
  std::vector<LaunchedProcess> ranks;
  for (int64_t rank = 0; rank < processes.size; ++rank) {
    LaunchedProcess& one = ranks.emplace_back();
    one.argv = {std::filesystem::canonical("/proc/self/exe").string()};
    one.argv.insert(one.argv.end(), processes.words.begin(), processes.words.end());
    one.environment = environment_of_rank(rank, processes.size, port);
    one.environment.push_back(fmt::format("OMP_NUM_THREADS={}", processes.threads));
    if (rank > 0 || !processes.first_speaks) one.log = processes.folder / fmt::format("rank-{}.log", rank);
  }
  const LaunchResult result = launch(ranks, static_cast<int>(ExitCode::kCommunication));
  if (!result.first) return std::nullopt;
  size_t first = *result.first;
  // it has said the same where it is read
  if (processes.first_speaks && result.statuses[0] == result.statuses[first]) first = 0;
  const std::optional<std::filesystem::path>& log = ranks[first].log;
  return RankFailure{.rank = static_cast<int64_t>(first),
                     .status = result.statuses[first],
                     .said = log ? read_text(*log) : ""};
}

void require_all_end_well(const RankProcesses& processes) {
  const std::optional<RankFailure> failure = failure_of(processes);
  if (!failure) return;
  throw Error(
      {.code = ExitCode::kCommunication,
       .what = fmt::format("rank {} of {} ended with {}", failure->rank, processes.size, failure->status),
       .expected = "all ranks to end well",
       .found = failure->said});
}

std::vector<std::string> own_words() {
  std::istringstream line(kernel_text("/proc/self/cmdline"));
  std::vector<std::string> words;
  for (std::string word; std::getline(line, word, '\0');) words.push_back(word);
  words.erase(words.begin());
  return words;
}

}  // namespace longhaul::comm
