// `longhaul train RECIPE [key=value …] [--run DIR] [--fresh]`
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "base/diagnostics.h"
#include "base/signals.h"
#include "cli/command.h"
#include "cli/output.h"
#include "kernels/dispatch.h"
#include "recipe/load.h"
#include "train/run.h"

namespace longhaul::cli {
namespace {

struct Arguments {
  std::string recipe, run;
  std::vector<std::string> overrides;
  bool fresh = false, explain_dispatch = false, quiet = false;
};

std::filesystem::path default_folder(const std::string& recipe) {
  return std::filesystem::path("runs") / std::filesystem::path(recipe).stem();
}

// As a shell must be given it.
std::string quoted(const std::string& word) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("_-=./:,+@%~").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// What continues this run: the command that was typed; of a finished one with twice the steps.
std::string next_command(const Arguments& arguments, const train::RunRequest& request, bool finished) {
  std::string command = "./longhaul train " + quoted(arguments.recipe);
  for (const std::string& word : arguments.overrides) {
    if (!finished || !word.starts_with("train.steps=")) command += " " + quoted(word);
  }
  if (finished) command += fmt::format(" train.steps={}", request.recipe.recipe.train.steps * 2);
  return arguments.run.empty() ? command : command + " --run " + quoted(arguments.run);
}

void print_where_things_lie(const Arguments& arguments, const train::RunRequest& request, const train::Outcome& outcome) {
  const std::string run = request.run_folder.string();
  const bool finished = outcome.reason == "finished";
  print(fmt::format(
      "\n{} at step {}. In {}:\n  report.html     the curves, to look at in a browser\n  events.jsonl    every step, one JSON object a line\n"
      "  checkpoints/    what sample, evaluate and a resumed run read\n  tensorboard/    tensorboard --logdir {}/tensorboard\n\n"
      "Next:\n  ./longhaul sample {} --prompt \"import torch\" --tokens 100\n  {}\n"
      "  ./longhaul checkpoint list {}/checkpoints\n",
      finished ? "Finished" : "Stopped", outcome.step, run, run, run, next_command(arguments, request, finished), run));
}

ExitCode run(const Arguments& arguments) {
  install_signal_handlers();
  kernels::Dispatcher::explain(arguments.explain_dispatch);
  train::RunRequest request{
      .recipe = recipe::load(arguments.recipe, arguments.overrides), .fresh = arguments.fresh, .quiet = arguments.quiet};
  request.run_folder = arguments.run.empty() ? default_folder(arguments.recipe) : std::filesystem::path(arguments.run);
  set_diagnostics_file(request.run_folder / "diagnostics.txt");
  const train::Outcome outcome = train::run_training(request);
  if (!arguments.quiet) print_where_things_lie(arguments, request, outcome);
  if (outcome.reason == "signal") return outcome.saved ? ExitCode::kPreemptedSaved : ExitCode::kPreemptedNotSaved;
  return outcome.saved ? ExitCode::kDone : ExitCode::kDisk;
}

}  // namespace

void add_train(Command& program) {
  auto arguments = std::make_shared<Arguments>();
  Command train = program.add(
      "train", "train the model a recipe describes; a second start continues the run",
      {{"from nothing to a report on this machine", "train recipes/first-run.toml"},
       {"another folder of text, and twice the steps", "train recipes/first-run.toml data.source=~/texts train.steps=2000 --run runs/mine"},
       {"begin anew; the earlier run is moved aside", "train recipes/first-run.toml --fresh"}});
  train.recipe(arguments->recipe, arguments->overrides);
  train.option("--run", arguments->run, "run directory (default: runs/<name of the recipe>)");
  train.flag("--fresh", arguments->fresh, "begin anew; an earlier run in that directory is moved aside");
  train.flag("--quiet", arguments->quiet, "print nothing but warnings and errors");
  train.flag("--explain-dispatch", arguments->explain_dispatch, "say which implementation of each operator was chosen, and why");
  train.on_run([arguments] { return run(*arguments); });
}

}  // namespace longhaul::cli
