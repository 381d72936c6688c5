// `longhaul config`: what a recipe says, without running it.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/register.h"
#include "recipe/check.h"
#include "recipe/load.h"
#include "recipe/options/difference.h"
#include "recipe/write.h"

namespace longhaul::cli {
namespace {

using nlohmann::ordered_json;

struct ConfigArguments {
  std::string recipe, second, key;
  std::vector<std::string> overrides;
  bool json = false;
};

void add_check(Command& group) {
  auto arguments = std::make_shared<ConfigArguments>();
  Command check =
      group.add("check", "refuse unknown keys, wrong values and impossible combinations",
                {{"is this recipe in order?", "config check recipes/first-run.toml"},
                 {"with one value set otherwise", "config check recipes/first-run.toml train.sequence=4096"},
                 {"for a script", "config check recipes/first-run.toml --json"}});
  check.recipe(arguments->recipe, arguments->overrides);
  check.json_flag(arguments->json);
  check.on_run([arguments] {
    const recipe::LoadedRecipe loaded = recipe::load(arguments->recipe, arguments->overrides);
    train::task_named(tasks(), loaded.recipe.train.task);  // refuses one that is unknown
    if (arguments->json) {
      print_json({{"recipe", arguments->recipe}, {"ok", true}, {"options_set", loaded.origins.size()}});
    } else {
      print(fmt::format("{} is in order: {} set\n", arguments->recipe,
                        counted(static_cast<int64_t>(loaded.origins.size()), "option")));
    }
    return ExitCode::kDone;
  });
}

void add_show_config(Command& group) {
  auto arguments = std::make_shared<ConfigArguments>();
  Command show =
      group.add("show", "every option with its value and where it comes from",
                {{"all options, as a recipe file", "config show recipes/first-run.toml"},
                 {"with overrides, as `train` would run it",
                  "config show recipes/first-run.toml train.steps=20 optim.lr=1e-3"},
                 {"one value, for a script", "config show recipes/first-run.toml --json | jq .train.steps"}});
  show.recipe(arguments->recipe, arguments->overrides);
  show.json_flag(arguments->json);
  show.on_run([arguments] {
    const recipe::LoadedRecipe loaded = recipe::load(arguments->recipe, arguments->overrides);
    if (arguments->json) {
      print_json(recipe::to_json(loaded));
    } else {
      print(recipe::to_toml(loaded));
    }
    return ExitCode::kDone;
  });
}

ordered_json json_of(const recipe::Difference& difference) {
  return {{"key", difference.key},
          {"first", difference.first.toml()},
          {"first_origin", difference.first_origin},
          {"second", difference.second.toml()},
          {"second_origin", difference.second_origin},
          {"on_resume", difference.on_resume == recipe::OnResume::kSame ? "same" : "may_change"}};
}

void add_diff_config(Command& group) {
  auto arguments = std::make_shared<ConfigArguments>();
  Command diff =
      group.add("diff", "the options in which two recipes differ (exit 1 when they do)",
                {{"two recipe files", "config diff recipes/first-run.toml mine.toml"},
                 {"a recipe and what a run was started with",
                  "config diff recipes/first-run.toml runs/first-run/recipe.toml"},
                 {"two runs, for a script", "config diff runs/a/recipe.toml runs/b/recipe.toml --json"}});
  diff.option("FIRST", arguments->recipe, "a recipe file").required();
  diff.option("SECOND", arguments->second, "another").required();
  diff.json_flag(arguments->json);
  diff.on_run([arguments] {
    const recipe::LoadedRecipe first = recipe::load(arguments->recipe),
                               second = recipe::load(arguments->second);
    const auto differences = recipe::differences(first, second);
    if (arguments->json) {
      ordered_json list = ordered_json::array();
      for (const auto& difference : differences) list.push_back(json_of(difference));
      print_json({{"equal", differences.empty()}, {"differences", list}});
    } else {
      print(differences.empty() ? "no option differs\n" : recipe::diff(first, second));
    }
    return differences.empty() ? ExitCode::kDone : ExitCode::kCheckFailed;
  });
}

// `explain KEY` and `explain RECIPE KEY`, each with overrides: a recipe is a file, and its name no option's.
ExitCode explain(ConfigArguments arguments) {
  if (!arguments.key.empty() && arguments.key.find('=') != std::string::npos) {
    arguments.overrides.insert(arguments.overrides.begin(), std::exchange(arguments.key, ""));
  }
  const bool without_recipe = arguments.key.empty();
  if (without_recipe) arguments.key = std::exchange(arguments.recipe, "");
  const bool recipe_alone = without_recipe && arguments.key.ends_with(".toml");
  if (arguments.key.empty() || recipe_alone) {
    throw Error(
        {.code = ExitCode::kUsage,
         .what = "there is nothing to explain",
         .expected = "an option or a section, as optim.lr or train",
         .found = recipe_alone ? "a recipe alone" : "none",
         .where = arguments.key,
         .hint = program_command("config explain " + (recipe_alone ? shell_quoted(arguments.key) + " " : "") +
                                 "optim.lr")});
  }
  const recipe::LoadedRecipe loaded = without_recipe ? recipe::load_defaults(arguments.overrides)
                                                     : recipe::load(arguments.recipe, arguments.overrides);
  const std::string text = recipe::explain(loaded, arguments.key);
  if (arguments.json) {
    print_json({{"key", arguments.key}, {"origin", loaded.origin(arguments.key).text()}, {"text", text}});
  } else {
    print(text.ends_with('\n') ? text : text + "\n");
  }
  return ExitCode::kDone;
}

void add_config_explain(Command& group) {
  auto arguments = std::make_shared<ConfigArguments>();
  Command command = group.add(
      "explain", "what an option means, its range, its value here and who set it",
      {{"one option", "config explain optim.lr"},
       {"a whole section, as a recipe has it", "config explain recipes/first-run.toml train"},
       {"under an override", "config explain recipes/first-run.toml model.layers model.preset=gpt2-124m"}});
  command.option("RECIPE", arguments->recipe, "a recipe file (TOML); may be left out");
  command.option("KEY", arguments->key, "an option or a section, as optim.lr or train");
  command.overrides(arguments->overrides);
  command.json_flag(arguments->json);
  command.on_run([arguments] { return explain(*arguments); });
}

}  // namespace

void add_config(Command& program) {
  Command group = program.add_group("config", "check, show, compare and explain recipes",
                                    {{"is a recipe in order?", "config check recipes/first-run.toml"},
                                     {"every option with its origin", "config show recipes/first-run.toml"},
                                     {"what an option means", "config explain optim.lr"}});
  add_check(group);
  add_show_config(group);
  add_diff_config(group);
  add_config_explain(group);
}

}  // namespace longhaul::cli
