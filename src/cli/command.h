// Command: how a subcommand joins the program. Each has one file with one function
//
//   void add_checkpoint(CLI::App& program, Command& command);
//
// listed in register.cpp. It declares its arguments with CLI11 and, through on_run(), what to do when it was the one typed.
// Nothing runs while the command line is read; main() runs it afterwards and turns what it throws into a message and an exit
// code. Subcommands hold no logic of their own: they read arguments, call one of the folders above, and print.
//
//   struct Arguments { std::string path; bool json = false; };
//   auto arguments = std::make_shared<Arguments>();
//   CLI::App* verify = add_command(*group, "verify", "check every byte", {{"what it does", "checkpoint verify runs/a"}, …});
//   verify->add_option("PATH", arguments->path, "a checkpoint")->required();
//   on_run(verify, command, [arguments] { …; return ExitCode::kDone; });
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace longhaul::cli {

struct Command {
  std::function<ExitCode()> run;  // of the subcommand that was typed
};

struct Example {
  std::string explanation;
  std::string typed;  // without "longhaul " in front
};

// --help of every command ends with its examples: three of them.
CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& purpose, const std::vector<Example>& examples);
// A command that only holds others (`checkpoint`): one of them must follow.
CLI::App* add_command_group(CLI::App& parent, const std::string& name, const std::string& purpose, const std::vector<Example>& examples);

void on_run(CLI::App* command, Command& chosen, std::function<ExitCode()> run);
void add_json_flag(CLI::App* command, bool& json, const std::string& help = "print JSON for machines");
// The positional RECIPE with its overrides: `RECIPE [key=value …]`.
void add_recipe(CLI::App* command, std::string& recipe, std::vector<std::string>& overrides);

// To standard output. kDisk when it cannot be written (a full disk behind a redirection).
void print(std::string_view text);
void print_json(const nlohmann::ordered_json& json);  // one line; bytes that are not UTF-8 become U+FFFD

// The page, and the part of it, that helps with errors of this kind: "docs/troubleshooting.md#data". Empty: none does.
std::string troubleshooting_of(ExitCode code);

// The name most like `typed`, or empty when none is near.
std::string nearest_name(std::string_view typed, const std::vector<std::string>& names);

}  // namespace longhaul::cli
