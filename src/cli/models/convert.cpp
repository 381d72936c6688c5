// `longhaul convert [DIR] [LAYERS] [--list]`: what a softmax transformer can become. The conversion itself is
// a start of a run: `longhaul train RECIPE --from DIR --convert LAYERS`.
#include "cli/models/convert.h"

#include <nlohmann/json.hpp>

#include "base/terminal.h"
#include "base/text/text.h"
#include "checkpoint/published/conversion_weights.h"
#include "checkpoint/starting_point.h"
#include "cli/command.h"
#include "cli/output.h"
#include "observe/table.h"
#include "recipe/architecture/conversion.h"
#include "recipe/load.h"

namespace longhaul::cli {
namespace {

struct ConversionArguments {
  std::string from, layers;
  bool list = false, json = false;
};

ExitCode list_kinds(bool json) {
  if (json) {
    nlohmann::ordered_json kinds = nlohmann::ordered_json::array();
    for (const recipe::ConversionKind& kind : recipe::conversion_kinds())
      kinds.push_back(
          {{"layer", kind.name}, {"copied", kind.copied}, {"anew", kind.added}, {"lost", kind.lost}});
    print_json(kinds);
    return ExitCode::kDone;
  }
  observe::Table table("what a layer of softmax attention can become",
                       {{"layer"}, {"copied"}, {"begins anew"}, {"lost"}});
  for (const recipe::ConversionKind& kind : recipe::conversion_kinds())
    table.row(
        {std::string(kind.name), std::string(kind.copied), std::string(kind.added), std::string(kind.lost)});
  print(table.text(colours_wanted(stdout)));
  return ExitCode::kDone;
}

ExitCode show_conversion(const ConversionArguments& arguments) {
  const auto point = checkpoint::StartingPoint::open(arguments.from, arguments.layers);
  const recipe::FirstWords words = point->first_words();
  const recipe::LoadedRecipe converted{.recipe = words.recipe};
  const std::string text = point->require_fitting(converted);
  const std::string command =
      program_command("train recipes/train-on.toml --from " + shell_quoted(arguments.from) + " --convert " +
                      shell_quoted(arguments.layers) + " data.source=FOLDER");
  if (arguments.json) {
    print_json(
        {{"from", arguments.from}, {"layers", arguments.layers}, {"text", text}, {"command", command}});
    return ExitCode::kDone;
  }
  print(text + "\n\nNext:\n  " + command + "\n");
  return ExitCode::kDone;
}

ExitCode run_convert(const ConversionArguments& arguments) {
  if (arguments.list) return list_kinds(arguments.json);
  if (!arguments.from.empty() && !arguments.layers.empty()) return show_conversion(arguments);
  throw Error({.code = ExitCode::kUsage,
               .what = "nothing was said to be converted",
               .expected = "--list, or a model and its layers",
               .found = arguments.from.empty() ? "neither" : "a model without layers",
               .where = "convert",
               .hint = program_command("convert ~/models/Qwen2.5-0.5B 'window*1,gla*1'")});
}

}  // namespace

void require_something_to_convert(const std::string& from, const std::string& rules) {
  if (rules.empty() || !from.empty()) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "there is no model to convert",
               .expected = "--from DIR, whose layers become others",
               .found = "--convert " + printable(rules) + " alone",
               .where = "command line",
               .hint = "name a Hugging Face folder or a checkpoint with --from"});
}

void add_convert(Command& program) {
  auto arguments = std::make_shared<ConversionArguments>();
  Command command = program.add(
      "convert",
      "what a softmax transformer can become: windows, linear attention, both (train --convert does it)",
      {{"what a layer can become, and what is lost", "convert --list"},
       {"which weights would be copied", "convert ~/models/Qwen2.5-0.5B 'window*1,gla*1'"},
       {"begin a run with them",
        "train recipes/train-on.toml --from ~/models/Qwen2.5-0.5B --convert 'window*1,gla*1'"}});
  command.option("DIR", arguments->from, "a Hugging Face folder, a checkpoint or a run");
  command.option("LAYERS", arguments->layers,
                 "what its layers become: a list such as window*1,gla*1, or a TOML file with layers = \"…\"");
  command.flag("--list", arguments->list, "what a layer can become");
  command.json_flag(arguments->json);
  command.on_run([arguments] { return run_convert(*arguments); });
}

}  // namespace longhaul::cli
