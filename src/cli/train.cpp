// `longhaul train RECIPE [key=value …] [--run DIR] [--fresh]`
#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "base/checksum.h"
#include "base/log.h"
#include "base/process/diagnostics.h"
#include "base/process/process.h"
#include "base/process/signals.h"
#include "base/terminal.h"
#include "base/text/text.h"
#include "cli/command.h"
#include "cli/models/convert.h"
#include "cli/output.h"
#include "cli/register.h"
#include "comm/world.h"
#include "control/wire/placement.h"
#include "kernels/dispatch.h"
#include "recipe/load.h"
#include "recipe/write.h"
#include "run/backend.h"
#include "run/local_cluster.h"
#include "run/run.h"
#include "run/run_folder.h"
#include "tensor/tensor.h"

namespace longhaul::cli {
namespace {

struct TrainArguments {
  std::string recipe, run, from, convert;
  std::vector<std::string> overrides;
  bool fresh = false, explain_dispatch = false, quiet = false;
};

std::string key_of(const std::string& override) { return override.substr(0, override.find_first_of(" =")); }

// What continues this run: the command that was typed; of a finished one with twice the steps. `launch` puts
// its own number of threads before the overrides that were typed.
std::string next_command(const TrainArguments& arguments, const run::RunRequest& request, bool finished) {
  const std::optional<std::string> launched = comm::variable(comm::kLaunched);
  std::string words = (launched ? "launch " + *launched + " " : "train ") + shell_quoted(arguments.recipe);
  for (size_t i = launched ? 1 : 0; i < arguments.overrides.size(); ++i) {
    const std::string& word = arguments.overrides[i];
    if (!finished || key_of(word) != "train.steps") words += " " + shell_quoted(word);
  }
  if (finished) words += fmt::format(" train.steps={}", request.recipe.recipe.train.steps * 2);
  if (!arguments.from.empty()) words += " --from " + shell_quoted(arguments.from);
  if (!arguments.convert.empty()) words += " --convert " + shell_quoted(arguments.convert);
  return program_command(arguments.run.empty() ? words : words + " --run " + shell_quoted(arguments.run));
}

// Messages, as all that a training run prints: its result is what lies in the run folder, and that is
// committed by now.
void say_where_things_lie(const TrainArguments& arguments, const run::RunRequest& request,
                          const train::Outcome& outcome, const comm::Placement& place) {
  const std::string run = request.run_folder.string();
  const bool finished = outcome.reason == "finished";
  say(stdout, fmt::format("\n{} at step {}. In {}:\n", finished ? "Finished" : "Stopped", outcome.step, run));
  const std::pair<const char*, std::string> things[] = {
      {"report.html", "the curves, to look at in a browser"},
      {"events.jsonl", "every step, one JSON object a line"},
      {"checkpoints", "what sample, evaluate and a resumed run read"},
      {"tensorboard", "tensorboard --logdir " + shell_quoted(run + "/tensorboard")}};
  for (const auto& [name, what] : things) {
    const std::filesystem::path path = request.run_folder / name;
    if (!std::filesystem::exists(path)) continue;  // observe.report, observe.tensorboard
    say(stdout, fmt::format("  {:<15} {}\n",
                            std::filesystem::is_directory(path) ? std::string(name) + "/" : name, what));
  }
  if (const std::string line = run::planned_against_measured(request.run_folder, request.recipe.recipe);
      !line.empty())
    say(stdout, "\n" + line);
  std::string prompt = request.recipe.recipe.sample.prompt;
  prompt.erase(prompt.find_last_not_of(" \n") + 1);
  const std::string use = train::task_named(tasks(), request.recipe.recipe.train.task)
                              .next_command(request.recipe.recipe, shell_quoted(run), shell_quoted(prompt));
  std::string next = next_command(arguments, request, finished);
  if (place.size > 1 && !comm::variable(comm::kLaunched)) next += "   # on every rank, by " + place.engine;
  say(stdout, "\nNext:\n");
  for (const std::string& command :
       {program_command(use), next, program_command("checkpoint list " + shell_quoted(run))}) {
    say(stdout, "  " + command + "\n");
  }
}

// As one rank of its world, or alone.
ExitCode run_as(const comm::Placement& place, run::RunRequest& request, const TrainArguments& arguments) {
  const run::RankPlace mine = run::place_of_rank(request.recipe, place);
  request.place = mine;
  const recipe::Recipe& recipe = request.recipe.recipe;
  const std::string values = recipe::to_toml({.recipe = recipe});  // wherever each rank has them from
  const std::string backend(recipe::names_of(mine.backend)[static_cast<size_t>(mine.backend)]);
  const bool nccl = mine.backend == recipe::Backend::kNccl && place.size > 1;
  const auto world =
      comm::join_world({.identity = {{"recipe", sha256_hex(values), recipe::option_values(recipe)},
                                     {"back end", backend, {{"parallel.backend", backend}}}},
                        .join_timeout = comm::Timeout(std::llround(1000 * recipe.parallel.join_timeout)),
                        .timeout = comm::Timeout(std::llround(1000 * recipe.parallel.timeout)),
                        .gpu = nccl ? std::optional(mine.device) : std::nullopt},
                       place);
  const bool first = world->rank() == 0;
  request.quiet = request.quiet || !first;
  set_diagnostics_file(request.run_folder /
                       (first ? "diagnostics.txt" : fmt::format("diagnostics-rank-{}.txt", world->rank())));
  const train::Outcome outcome =
      run::run_training(request, tasks(), world->size() > 1 ? world.get() : nullptr);
  const bool signalled = outcome.reason == "signal";
  if (!request.saves) return signalled ? ExitCode::kPreemptedNotSaved : ExitCode::kDone;
  if (!outcome.saved) {
    throw Error(
        {.code = signalled ? ExitCode::kPreemptedNotSaved : ExitCode::kDisk,
         .what = "the last state of the run is not saved",
         .found = fmt::format("the checkpoint of step {} failed (the alarm above says why)", outcome.step),
         .where = request.run_folder.string(),
         .hint = "make room, then go on from the last good checkpoint: " +
                 next_command(arguments, request, /*finished=*/false)});
  }
  if (!request.quiet) say_where_things_lie(arguments, request, outcome, place);
  return signalled ? ExitCode::kPreemptedSaved : ExitCode::kDone;
}

ExitCode run(const TrainArguments& arguments) {
  install_signal_handlers();
  if (arguments.quiet) set_log_level(LogLevel::kWarning);
  kernels::Dispatcher::explain(arguments.explain_dispatch);
  run::RunRequest request{
      .fresh = arguments.fresh, .quiet = arguments.quiet, .saves = !control::variable(control::kProbe)};
  request.run_folder = arguments.run.empty() ? run::default_run_folder(arguments.recipe)
                                             : std::filesystem::path(arguments.run);
  require_something_to_convert(arguments.from, arguments.convert);
  if (arguments.from.empty()) {
    request.recipe = recipe::load(arguments.recipe, arguments.overrides);
  } else {
    // A run that goes on needs nothing any more of what it began with.
    auto first = arguments.fresh ? std::nullopt : checkpoint::words_of_run(request.run_folder);
    if (!first) {
      request.from = checkpoint::StartingPoint::open(arguments.from, arguments.convert);
      first = request.from->first_words();
    }
    request.recipe = recipe::load(arguments.recipe, arguments.overrides, &*first);
  }
  // Started by `longhaul launch`, torchrun or srun this process is one rank of a world, and rank 0 speaks for
  // all.
  const comm::Placement place = comm::find_place();
  observe::BoardWriter board = observe::BoardWriter::from_environment(place.rank);
  request.board = &board;
  request.end_process = [&board](const Error& failure) {
    board.failed(static_cast<int64_t>(failure.code()), failure.what(), /*consequence=*/false);
    board.ended();
    report(failure);
    end_at_once(static_cast<int>(failure.code()));
  };
  ExitCode code = ExitCode::kDone;
  try {
    translate_torch_errors([&] { code = run_as(place, request, arguments); });
  } catch (const std::exception& failure) {
    const auto* const error = dynamic_cast<const Error*>(&failure);
    const bool consequence = dynamic_cast<const comm::Aborted*>(&failure) != nullptr;
    board.failed(static_cast<int64_t>(error != nullptr ? error->code() : ExitCode::kInternal), failure.what(),
                 consequence);
    board.ended();
    throw;
  }
  board.ended();
  return code;
}

}  // namespace

void add_train(Command& program) {
  auto arguments = std::make_shared<TrainArguments>();
  Command train =
      program.add("train", "train the model a recipe describes; a second start continues the run",
                  {{"from nothing to a report on this machine", "train recipes/first-run.toml"},
                   {"another folder of text, and twice the steps",
                    "train recipes/first-run.toml data.source=~/texts train.steps=2000 --run runs/mine"},
                   {"weights of a published model, and its tokenizer",
                    "train recipes/train-on.toml --from ~/models/Qwen3-0.6B --run runs/mine"}});
  train.recipe(arguments->recipe, arguments->overrides);
  train.option("--run", arguments->run, "run directory (default: runs/<name of the recipe>)");
  train.option(
      "--from", arguments->from,
      "begin with the weights of a Hugging Face folder or of a checkpoint, which also gives [model]");
  train.option("--convert", arguments->convert,
               "what the layers of --from become: a list, or a TOML file (`convert --list`)");
  train.flag("--fresh", arguments->fresh, "begin anew; an earlier run in that directory is moved aside");
  train.flag("--quiet", arguments->quiet, "print nothing but warnings and errors");
  train.flag("--explain-dispatch", arguments->explain_dispatch,
             "say which implementation of each operator was chosen, and why");
  train.on_run([arguments] { return run(*arguments); });
}

}  // namespace longhaul::cli
