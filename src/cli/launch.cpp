// `longhaul launch -n N [--nodes M] [--spares K] [--restarts R] RECIPE [key=value …] [--run DIR]`
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/files/file.h"
#include "base/files/folders.h"
#include "base/process/process_limits.h"
#include "base/process/program_name.h"
#include "base/terminal.h"
#include "base/text/text.h"
#include "base/threads/parallel.h"
#include "base/version.h"
#include "checkpoint/starting_point.h"
#include "cli/command.h"
#include "cli/models/convert.h"
#include "comm/disagreement.h"
#include "control/driver/driver_service.h"
#include "control/node/rank_environment.h"
#include "control/widths.h"
#include "detect/minder/models.h"
#include "recipe/load.h"
#include "run/run_folder.h"

namespace longhaul::cli {

void add_launch_status(Command& launch);
void add_launch_evict(Command& launch);
void add_launch_key(Command& launch);

namespace {

struct LaunchArguments {
  std::string recipe, run, from, convert, listen;
  std::vector<std::string> overrides, environment;
  int64_t ranks = 0, threads = 0, nodes = 1, spares = 0, restarts = 20;
  double hang_s = 60;
  std::string host_history = (user_cache_folder() / "hosts.jsonl").string();
  bool replace_slow = false, keep_slow = false;
  std::string check = "auto", detect = "auto";
};

constexpr int64_t kFewestForDetect = 8;  // nodes from which on their samples are compared unasked

// With no restart left to wait for, the others may say what they saw of the one that failed.
constexpr double kLastWords_s = 8;

std::filesystem::path run_folder_of(const LaunchArguments& arguments) {
  return arguments.run.empty() ? run::default_run_folder(arguments.recipe)
                               : std::filesystem::path(arguments.run);
}

void check_launch(const LaunchArguments& arguments) {
  const auto refuse = [](std::string expected, std::string found) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the command line is not understood",
                 .expected = std::move(expected),
                 .found = std::move(found),
                 .where = "longhaul launch",
                 .hint = "longhaul launch --help"});
  };
  if (arguments.ranks < 1) refuse("-n N: how many processes", "--ranks is required");
  if (arguments.recipe.empty()) refuse("a recipe", "RECIPE is required");
  if (arguments.ranks % arguments.nodes != 0)
    refuse("as many ranks on every node",
           fmt::format("{} ranks on {} nodes", arguments.ranks, arguments.nodes));
}

// `launch -n 2 evaluate runs/x`: what stands in the recipe's place is another command, which has its own way
// to several ranks.
void refuse_other_commands(const std::vector<std::string>& words, const std::vector<std::string>& commands) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& name = words[i];
    const bool is_value = i > 0 && words[i - 1].starts_with("-");
    if (is_value || std::ranges::find(commands, name) == commands.end() || std::filesystem::exists(name))
      continue;
    if (name == "status" || name == "evict") return;  // its own
    const bool trains = name == "train";
    std::string before, behind, ranks;
    for (size_t j = 0; j < words.size(); ++j) {
      if (j == i) continue;
      const bool of_ranks = (words[j] == "-n" || words[j] == "--ranks") && j + 1 < words.size();
      if (of_ranks) ranks = words[j + 1];
      if (of_ranks && !trains) {
        ++j;
      } else {
        (j < i ? before : behind) += " " + shell_quoted(words[j]);
      }
    }
    const bool shares = name == "evaluate" && !ranks.empty();
    throw Error({.code = ExitCode::kUsage,
                 .what = trains ? "launch trains without being told so"
                                : fmt::format("launch trains; it does not start {}", name),
                 .expected = "a recipe (TOML)",
                 .found = name,
                 .where = "longhaul launch",
                 .hint = program_command(trains ? "launch" + before + behind
                                                : name + behind + (shares ? " --ranks " + ranks : ""))});
  }
}

// A driver has a connection to each node, and ranks one to each other; some libraries open dozens of files.
void require_open_files(const LaunchArguments& arguments) {
  const int64_t local = arguments.listen.empty() ? arguments.nodes + arguments.spares : 0;
  const int64_t needed = 64 + std::max(arguments.nodes + arguments.spares, local > 0 ? arguments.ranks : 1),
                may = raise_open_files();
  if (may >= needed) return;
  throw Error(
      {.code = ExitCode::kUsage,
       .what = "too few files may be open at once",
       .expected = fmt::format("{} for {} ranks", needed, arguments.ranks),
       .found = std::to_string(may),
       .where = "ulimit -n",
       .hint = "ulimit -n 4096, and where that is refused: raise the hard limit (limits.conf, LimitNOFILE)"});
}

recipe::Recipe recipe_of(const LaunchArguments& arguments) {
  require_something_to_convert(arguments.from, arguments.convert);
  if (arguments.from.empty()) return recipe::load(arguments.recipe, arguments.overrides).recipe;
  auto first = checkpoint::words_of_run(run_folder_of(arguments));  // of a run that goes on: as train does
  if (!first) first = checkpoint::StartingPoint::open(arguments.from, arguments.convert)->first_words();
  return recipe::load(arguments.recipe, arguments.overrides, &*first).recipe;
}

control::RunPlan plan_of(const LaunchArguments& arguments, const recipe::Recipe& recipe) {
  return {.recipe = arguments.recipe,
          .version = build_version().version,
          .widths = control::widths_of(recipe, arguments.ranks),
          .nodes = arguments.nodes,
          .spares = arguments.spares,
          .steps = recipe.train.steps,
          .batches = control::batches_of(recipe),
          .prefetch = recipe.data.prefetch};
}

std::vector<std::string> environment_of_ranks(const LaunchArguments& arguments) {
  std::vector<std::string> environment = control::passed_environment(arguments.environment);
  environment.push_back(fmt::format("{}={}", control::kTypedAs, program_as_typed()));
  return environment;
}

control::RunCommand command_of_ranks(const LaunchArguments& arguments) {
  const int64_t threads =
      arguments.threads > 0 ? arguments.threads : std::max<int64_t>(1, usable_cores() / arguments.ranks);
  control::RunCommand command{.words = {"train", arguments.recipe, fmt::format("train.threads={}", threads)},
                              .options = {"--run", run_folder_of(arguments).string()},
                              .environment = environment_of_ranks(arguments),
                              .launched = fmt::format("-n {}", arguments.ranks),
                              .folder = std::filesystem::current_path().string(),
                              .run_folder = std::filesystem::absolute(run_folder_of(arguments)).string()};
  command.words.insert(command.words.end(), arguments.overrides.begin(), arguments.overrides.end());
  if (!arguments.from.empty()) command.options.insert(command.options.end(), {"--from", arguments.from});
  if (!arguments.convert.empty())
    command.options.insert(command.options.end(), {"--convert", arguments.convert});
  const auto add = [&](const char* option, int64_t value, int64_t otherwise) {
    if (value != otherwise) command.launched += fmt::format(" {} {}", option, value);
  };
  add("--threads-per-rank", arguments.threads, 0);
  add("--nodes", arguments.nodes, 1);
  add("--spares", arguments.spares, 0);
  add("--restarts", arguments.restarts, 20);
  return command;
}

// One line for people, after all have ended: who failed by itself, how, and where it says more.
void print_summary(const LaunchArguments& arguments, const control::DriverResult& result) {
  const auto status = static_cast<int>(result.code);
  if (result.rank < 0 || result.code == ExitCode::kDoNotRestart) {
    say(stderr, fmt::format("\nlaunch: {}\n", result.text));
  } else {
    const std::string how = status > 128
                                ? fmt::format("was ended by signal {}", status - 128)
                                : fmt::format("ended with exit code {} ({})", status, name_of(result.code));
    const auto log = run_folder_of(arguments) / "logs" / fmt::format("rank-{}.log", result.rank);
    const std::string more = result.rank == 0 && arguments.listen.empty() ? "its messages stand above"
                                                                          : "its messages: " + log.string();
    say(stderr, fmt::format("\nlaunch: rank {} of {} {}; {}\n", result.rank, arguments.ranks, how, more));
  }
  if (const std::string calls = comm::summary_of_calls(run_folder_of(arguments)); !calls.empty())
    say(stderr, calls + "\n");
}

// How samples of nodes are compared; nothing: they are not.
std::optional<control::MinderOptions> minder_of(const LaunchArguments& arguments) {
  const bool off =
      arguments.detect == "off" || (arguments.detect == "auto" && arguments.nodes < kFewestForDetect);
  if (off) return std::nullopt;
  const auto run_folder = std::filesystem::absolute(run_folder_of(arguments));
  if (arguments.detect == "auto" || arguments.detect == "on")
    return control::MinderOptions{
        .run_folder = run_folder, .models = detect::untrained_models(), .variant = detect::Variant::kMean};
  return control::MinderOptions{.run_folder = run_folder, .models = detect::load_models(arguments.detect)};
}

// Rank 0 says where things lie on a terminal that is not this one.
void show_where_to_look(const LaunchArguments& arguments, const control::DriverResult& result) {
  const std::string run = shell_quoted(run_folder_of(arguments).string());
  say(stdout,
      fmt::format("\n{}. In {}\n\nNext:\n  {}\n  {}\n", result.text, run_folder_of(arguments).string(),
                  program_command("watch --once " + run), program_command("checkpoint list " + run)));
}

ExitCode run_launch(const LaunchArguments& arguments) {
  check_launch(arguments);
  const recipe::Recipe recipe = recipe_of(arguments);
  require_open_files(arguments);
  control::DriverOptions options{
      .plan = plan_of(arguments, recipe),
      .command = command_of_ranks(arguments),
      .run_folder = run_folder_of(arguments),
      .local_nodes = arguments.listen.empty() ? arguments.nodes + arguments.spares : 0,
      .slots = arguments.ranks / arguments.nodes,
      .listen = arguments.listen,
      .program = std::filesystem::canonical("/proc/self/exe").string()};
  options.log_every = recipe.train.log_every;
  const bool machines = !arguments.listen.empty();  // each node is one
  options.replace_slow = !arguments.keep_slow && (machines || arguments.replace_slow);
  options.minder = minder_of(arguments);
  options.policy.preflight = options.policy.stop_checks =
      arguments.check == "always" || (arguments.check == "auto" && machines);
  options.policy.restarts = arguments.restarts;
  options.policy.progress_floor_s = arguments.hang_s;
  options.policy.progress_factor *= control::longest_growth(recipe);
  if (arguments.restarts == 0) options.policy.stop_grace_s = kLastWords_s;
  // Daemons of this machine stand for machines where there are spares: one that died is a machine that is
  // gone.
  if (arguments.spares > 0) options.policy.restart_nodes = false;
  if (machines) {
    options.make_engine = [] { return control::find_engine(); };
    options.policy.replacement_s = options.make_engine()->replacement_s();
    options.host_history = arguments.host_history;
  }
  control::DriverService driver(std::move(options));
  comm::forget_calls(run_folder_of(arguments));
  const control::DriverResult result = driver.run();
  if (result.code != ExitCode::kDone && arguments.ranks > 1 && !result.stopped)
    print_summary(arguments, result);
  if (result.code == ExitCode::kDone && result.showed) show_where_to_look(arguments, result);
  return result.code;
}

}  // namespace

void add_launch(Command& program) {
  auto arguments = std::make_shared<LaunchArguments>();
  Command launch =
      program.add("launch", "train on several processes, and bring the run through their failures",
                  {{"two processes, each with its own sequences",
                    "launch -n 2 recipes/first-run.toml train.micro_batch=1"},
                   {"four that share the model, in a run folder of your own",
                    "launch -n 4 --threads-per-rank 1 recipes/first-run.toml parallel.tp=2 parallel.cp=2 "
                    "--run runs/four"},
                   {"on two machines, which type what this prints",
                    "launch -n 16 --nodes 2 --listen 10.0.0.1:29400 recipes/first-run.toml"}});
  launch.option("-n,--ranks", arguments->ranks, "how many processes").at_least(1).at_most(1024);
  launch
      .option("--nodes", arguments->nodes,
              "machines that they are spread over; without --listen this one stands for all")
      .at_least(1)
      .at_most(1024)
      .default_shown();
  launch.option("--spares", arguments->spares, "machines beside them that wait until one fails")
      .at_least(0)
      .at_most(1024)
      .default_shown();
  launch
      .option("--restarts", arguments->restarts,
              "failures a day that the run is started again after; 0: the first one ends it")
      .at_least(0)
      .default_shown();
  launch
      .option("--hang-after", arguments->hang_s,
              "seconds without progress, at least, after which a rank hangs")
      .above(0)
      .default_shown();
  launch.flag("--replace-slow", arguments->replace_slow,
              "nodes of ranks that compute longer than their peers, at a checkpoint where a spare is there: "
              "as with --listen by itself");
  launch.flag("--keep-slow", arguments->keep_slow,
              "with --listen: nodes that are slower than their like are only told of");
  launch
      .option("--check", arguments->check,
              "whether nodes are checked before their first ranks (seconds) and when they are suspected "
              "(minutes); auto: with --listen")
      .one_of({"auto", "always", "never"})
      .default_shown();
  launch
      .option("--detect", arguments->detect,
              "whether samples of nodes are compared, to find one that is ill: off, on, a file of `detect "
              "train`, auto: on from eight nodes")
      .default_shown();
  launch.option("--listen", arguments->listen,
                "HOST:PORT of this machine that `longhaul node` of others connects to");
  launch.option("--host-history", arguments->host_history,
                "with --listen: a file of what hosts did in weeks, those that fail often are used last "
                "(default: hosts.jsonl of your cache)");
  launch
      .option("--threads-per-rank", arguments->threads,
              "compute threads of each (default: the cores shared evenly)")
      .at_least(1);
  launch
      .option("--env", arguments->environment,
              "NAME[=VALUE]: a variable that ranks get beside those that every one has (PATH, HOME, OMP_…, "
              "NCCL_…). NAME alone takes its value "
              "from here, which then stands in no command line")
      .one_each();
  launch.option("RECIPE", arguments->recipe, "a recipe file (TOML)");
  launch.overrides(arguments->overrides);
  launch.option("--from", arguments->from,
                "begin with the weights of a Hugging Face folder or of a checkpoint, as train does");
  launch.option("--convert", arguments->convert, "what the layers of --from become, as train does");
  launch.option(
      "--run", arguments->run,
      "run directory (default: runs/<name of the recipe>); others' output is in its logs/rank-N.log");
  launch.before_reading(refuse_other_commands);
  launch.on_run([arguments] { return run_launch(*arguments); });
  add_launch_status(launch);
  add_launch_evict(launch);
  add_launch_key(launch);
}

}  // namespace longhaul::cli
