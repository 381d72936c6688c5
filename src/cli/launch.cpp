// `longhaul launch -n N [--threads-per-rank T] RECIPE [key=value …] [--run DIR]`
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/launch.h"
#include "base/network.h"
#include "base/parallel.h"
#include "cli/command.h"
#include "comm/disagreement.h"
#include "comm/placement.h"
#include "train/run_folder.h"

namespace longhaul::cli {
namespace {

struct LaunchArguments {
  std::string recipe, run, from;
  std::vector<std::string> overrides;
  int64_t ranks = 1, threads = 0;
};

std::filesystem::path log_of(const std::filesystem::path& run, size_t rank) { return run / "logs" / fmt::format("rank-{}.log", rank); }

std::vector<std::string> words_of(const LaunchArguments& arguments, const std::filesystem::path& run) {
  std::vector<std::string> words = {std::filesystem::canonical("/proc/self/exe").string(), "train", arguments.recipe};
  const int64_t threads = arguments.threads > 0 ? arguments.threads : std::max<int64_t>(1, usable_cores() / arguments.ranks);
  words.push_back(fmt::format("train.threads={}", threads));
  words.insert(words.end(), arguments.overrides.begin(), arguments.overrides.end());
  words.insert(words.end(), {"--run", run.string()});
  if (!arguments.from.empty()) words.insert(words.end(), {"--from", arguments.from});
  return words;
}

// One line for people, after all have ended: who failed by itself, how, and where it says more.
void print_summary(const LaunchResult& result, const std::filesystem::path& run) {
  const size_t rank = *result.first;
  const int status = result.statuses[rank];
  const std::string how = status > 128 ? fmt::format("was ended by signal {}", status - 128)
                                       : fmt::format("ended with exit code {} ({})", status, name_of(static_cast<ExitCode>(status)));
  const std::string more = rank == 0 ? "its messages stand above" : "its messages: " + log_of(run, rank).string();
  fmt::print(stderr, "\nlaunch: rank {} of {} {}; {}\n", rank, result.statuses.size(), how, more);
  if (const std::string calls = comm::summary_of_calls(run); !calls.empty()) fmt::print(stderr, "{}\n", calls);
}

ExitCode run_launch(const LaunchArguments& arguments) {
  const std::filesystem::path run =
      arguments.run.empty() ? train::default_run_folder(arguments.recipe) : std::filesystem::path(arguments.run);
  if (arguments.ranks > 1) make_folders(run / "logs");
  comm::forget_calls(run);
  const std::vector<std::string> words = words_of(arguments, run);
  std::string options = fmt::format("-n {}", arguments.ranks);
  if (arguments.threads > 0) options += fmt::format(" --threads-per-rank {}", arguments.threads);
  const uint16_t port = free_port();
  std::vector<LaunchedProcess> processes;
  for (int64_t rank = 0; rank < arguments.ranks; ++rank) {
    LaunchedProcess& process = processes.emplace_back();
    process.argv = words;
    process.environment = comm::environment_of_rank(rank, arguments.ranks, port);
    process.environment.push_back(fmt::format("{}={}", comm::kLaunched, options));
    if (rank > 0) process.log = log_of(run, static_cast<size_t>(rank));
  }
  const LaunchResult result = launch(processes, static_cast<int>(ExitCode::kCommunication));
  if (!result.first) return ExitCode::kDone;
  if (arguments.ranks > 1 && !result.stopped) print_summary(result, run);
  return static_cast<ExitCode>(result.statuses[*result.first]);
}

}  // namespace

void add_launch(Command& program) {
  auto arguments = std::make_shared<LaunchArguments>();
  Command launch = program.add("launch", "train on several processes of this machine",
                               {{"two processes, each with its own sequences", "launch -n 2 recipes/first-run.toml train.micro_batch=1"},
                                {"two that share the model", "launch -n 2 recipes/first-run.toml parallel.tp=2"},
                                {"four with one thread each, in a run folder of your own",
                                 "launch -n 4 --threads-per-rank 1 recipes/first-run.toml parallel.tp=2 parallel.cp=2 --run runs/four"}});
  launch.option("-n,--ranks", arguments->ranks, "how many processes").required().at_least(1).at_most(1024);
  launch.option("--threads-per-rank", arguments->threads, "compute threads of each (default: the cores shared evenly)").at_least(1);
  launch.recipe(arguments->recipe, arguments->overrides);
  launch.option("--from", arguments->from, "begin with the weights of a Hugging Face folder or of a checkpoint, as train does");
  launch.option("--run", arguments->run, "run directory (default: runs/<name of the recipe>); others' output is in its logs/rank-N.log");
  launch.on_run([arguments] { return run_launch(*arguments); });
}

}  // namespace longhaul::cli
