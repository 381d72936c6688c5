#include "cli/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <system_error>

namespace longhaul::cli {
namespace {

std::string footer_of(const std::vector<Example>& examples) {
  std::string text = "Examples:\n";
  for (const Example& example : examples) text += fmt::format("  # {}\n  longhaul {}\n", example.explanation, example.typed);
  return text;
}

// Insertions, deletions and substitutions between two words.
size_t spelling_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, substituted}));
    }
  }
  return row.back();
}

}  // namespace

CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& purpose, const std::vector<Example>& examples) {
  CLI::App* command = parent.add_subcommand(name, purpose);
  command->footer(footer_of(examples));
  return command;
}

CLI::App* add_command_group(CLI::App& parent, const std::string& name, const std::string& purpose, const std::vector<Example>& examples) {
  CLI::App* group = add_command(parent, name, purpose, examples);
  group->require_subcommand(1);
  return group;
}

void on_run(CLI::App* command, Command& chosen, std::function<ExitCode()> run) {
  command->final_callback([&chosen, command, run = std::move(run)] {
    if (command->get_subcommands().empty()) chosen.run = run;  // a command under it was typed, and has its own
  });
}

void add_json_flag(CLI::App* command, bool& json, const std::string& help) { command->add_flag("--json", json, help); }

void add_recipe(CLI::App* command, std::string& recipe, std::vector<std::string>& overrides) {
  command->add_option("RECIPE", recipe, "a recipe file (TOML)")->required();
  command->add_option("key=value", overrides, "options of the recipe to set otherwise, as train.steps=20");
}

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw Error({.code = ExitCode::kDisk,
                 .what = "cannot write the result",
                 .found = std::generic_category().message(errno),
                 .where = "standard output",
                 .hint = "see where the output is redirected to: is that disk full?"});
  }
}

void print_json(const nlohmann::ordered_json& json) {
  print(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

std::string troubleshooting_of(ExitCode code) {
  const auto part = [&]() -> std::string_view {
    switch (code) {
      case ExitCode::kUsage:
        return "recipes";
      case ExitCode::kData:
        return "data";
      case ExitCode::kCheckpoint:
        return "checkpoints";
      case ExitCode::kNumeric:
        return "steps-are-skipped-not-finite";
      case ExitCode::kOutOfMemory:
        return "out-of-memory";
      case ExitCode::kDevice:
        return "the-gpu-is-refused";
      case ExitCode::kDisk:
        return "the-disk-is-full";
      case ExitCode::kFenced:
        return "this-process-slept-and-its-run-was-taken-over-or-moved";
      default:
        return "";
    }
  }();
  return part.empty() ? "" : fmt::format("docs/troubleshooting.md#{}", part);
}

std::string nearest_name(std::string_view typed, const std::vector<std::string>& names) {
  std::string nearest;
  size_t least = std::max<size_t>(1, typed.size() / 2) + 1;
  for (const std::string& name : names) {
    if (const size_t distance = spelling_distance(typed, name); distance < least) {
      least = distance;
      nearest = name;
    }
  }
  return nearest;
}

}  // namespace longhaul::cli
