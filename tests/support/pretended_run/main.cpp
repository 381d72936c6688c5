// A stand-in for the program in tests of the driver and its daemons: `node` is the real daemon, `train` a
// rank that trains nothing. It keeps step with the others through files in the run's folder, tells its board
// what it does, and goes on from the last file "checkpoint".
//
//   pretended_run train RECIPE [steps=N] [step_ms=M] [hold=STEP] [fault=RANK:STEP:EXIT] --run DIR
//                         hold: it stands behind that step until there is a file "go"; fault: that rank ends
//                           so, in the first generation
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "base/clock.h"
#include "control/node/node_daemon.h"
#include "observe/board/rank_board.h"

namespace {

using namespace longhaul;
namespace fs = std::filesystem;

volatile std::sig_atomic_t g_stop = 0;

int64_t number_of(const std::string& text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string value_of(const std::vector<std::string>& words, const std::string& name,
                     const std::string& otherwise) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == name && i + 1 < words.size()) return words[i + 1];
    if (words[i].starts_with(name + "=")) return words[i].substr(name.size() + 1);
  }
  return otherwise;
}

int64_t number_in(const fs::path& path) {
  int64_t number = 0;
  std::ifstream(path) >> number;
  return number;
}

void write_number(const fs::path& path, int64_t number) {
  const fs::path unfinished = fmt::format("{}.{}", path.string(), ::getpid());
  std::ofstream(unfinished) << number << "\n";
  fs::rename(unfinished, path);
}

int train(const std::vector<std::string>& words) {
  std::signal(SIGTERM, [](int) { g_stop = 1; });
  const fs::path run = value_of(words, "--run", "");
  const int64_t rank = number_of(std::getenv("RANK")), world = number_of(std::getenv("WORLD_SIZE")),
                steps = number_of(value_of(words, "steps", "100"));
  const std::string generation = std::getenv("LONGHAUL_GENERATION");
  observe::BoardWriter board = observe::BoardWriter::from_environment(rank);
  board.enter(observe::RankPhase::kLoad);
  int64_t step = number_in(run / "checkpoint");
  board.step_started_from(step);
  const int64_t hold = number_of(value_of(words, "hold", "-1"));
  std::ofstream losses(run / "losses", std::ios::app);
  const auto at = [&](int64_t other) { return run / fmt::format("at-{}-{}", generation, other); };
  while (step < steps) {
    board.enter(observe::RankPhase::kForward);
    ::usleep(static_cast<useconds_t>(1000 * number_of(value_of(words, "step_ms", "5"))));
    if (generation == "1" && value_of(words, "fault", "").starts_with(fmt::format("{}:{}:", rank, step))) {
      std::cerr << "this rank fails as it was told\n";
      return static_cast<int>(
          number_of(value_of(words, "fault", "").substr(fmt::format("{}:{}:", rank, step).size())));
    }
    write_number(at(rank), step + 1);
    board.enter(observe::RankPhase::kCommunication);
    for (int64_t other = 0; other < world && g_stop == 0; ++other) {
      while (number_in(at(other)) < step + 1 && g_stop == 0) ::usleep(1000);
    }
    if (g_stop != 0) break;
    ++step;
    if (rank == 0) losses << step << " " << 100.0 / static_cast<double>(step) << "\n" << std::flush;
    if (rank == 0 && step % 5 == 0) write_number(run / "checkpoint", step);
    board.step_ended(
        {.step = step, .seconds = 0.005, .loss = 100.0 / static_cast<double>(step), .tokens = step});
    while (step == hold && g_stop == 0 && !fs::exists(run / "go")) ::usleep(1000);
  }
  if (rank == 0 && g_stop != 0) write_number(run / "checkpoint", step);
  board.ended();
  return g_stop != 0 ? 74 : 0;
}

int node(const std::vector<std::string>& words, const std::string& program) {
  control::NodeOptions options{.driver = value_of(words, "--driver", ""),
                               .secret = value_of(words, "--secret", ""),
                               .name = value_of(words, "--name", ""),
                               .slots = number_of(value_of(words, "--slots", "1")),
                               .patience_s = 20,
                               .program = program};
  for (const std::string& word : words) options.spare |= word == "--spare";
  return static_cast<int>(control::NodeDaemon(options).run());
}

}  // namespace

int main(int count, char** words) {
  const std::vector<std::string> typed(words + 1, words + count);
  try {
    return typed.at(0) == "node" ? node(typed, fs::canonical("/proc/self/exe").string()) : train(typed);
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return static_cast<int>(error.code());
  }
}
