// Command: how a subcommand joins the program. Each subcommand has one file with one function
//
//   void add_checkpoint(Command& program);
//
// listed in register.cpp. The function declares the arguments and, through on_run(), what to do when this
// subcommand is called. Nothing runs while the command line is read; main() runs it afterwards and turns
// exceptions into a message and an exit code. Subcommands hold no logic of their own: they read arguments,
// call one of the folders above, and print (cli/output.h).
//
//   struct Arguments { std::string path; int64_t keep = 3; bool json = false; };
//   auto arguments = std::make_shared<Arguments>();
//   Command prune = group.add("prune", "remove old checkpoints",
//                             {{"keep two", "checkpoint prune runs/a --keep 2"}, …});
//   prune.option("PATH", arguments->path, "a run folder").required();
//   prune.option("--keep", arguments->keep, "newest checkpoints kept").at_least(1).default_shown();
//   prune.json_flag(arguments->json);
//   prune.on_run([arguments] { …; return ExitCode::kDone; });
//
// The variables are filled while the command line is read and must stay alive until then: the function
// given to on_run() holds them. CLI11 parses the command line; only command.cpp includes it, because its
// header adds ten seconds of compile time to every file that includes it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace CLI {
class App;
}

namespace longhaul::cli {

struct Example {
  std::string explanation;
  std::string typed;  // without the program's name in front
};

// Refines an argument that was just declared. A refused value ends the program with kUsage (64).
class Option {
 public:
  Option& required();
  Option& hidden();         // hides it from --help: it is for the program's own use
  Option& default_shown();  // --help shows the value that the variable has now
  // For a list: each value needs the option's name in front, so that a positional word may follow.
  Option& one_each();
  // For numbers.
  Option& at_least(double least);
  Option& above(double limit);
  Option& at_most(double most);
  // For text, which must not be empty unless allowed.
  Option& one_of(std::vector<std::string> choices);
  Option& may_be_empty();

 private:
  friend class Command;
  struct State;
  explicit Option(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// One command, by reference: copies are the same command. Valid as long as its Program.
class Command {
 public:
  // Adds a subcommand. --help of every command ends with its examples: three of them.
  Command add(const std::string& name, const std::string& purpose, const std::vector<Example>& examples);
  // Adds a command that only groups others (`checkpoint`): a subcommand must follow.
  Command add_group(const std::string& name, const std::string& purpose,
                    const std::vector<Example>& examples);
  void heading(const std::string& text);  // commands added from here on appear under this heading in --help

  // A name with dashes ("--out") declares an option with a value, one without ("PATH") a positional word.
  Option option(const std::string& name, std::string& into, const std::string& help);
  Option option(const std::string& name, std::vector<std::string>& into, const std::string& help);
  Option option(const std::string& name, int64_t& into, const std::string& help);
  Option option(const std::string& name, uint64_t& into, const std::string& help);
  Option option(const std::string& name, double& into, const std::string& help);
  // none: not given
  Option option(const std::string& name, std::optional<double>& into, const std::string& help);
  void flag(const std::string& name, bool& into, const std::string& help);
  void json_flag(bool& json, const std::string& help = "print JSON for machines");
  // The positional RECIPE with its overrides: `RECIPE [key=value …]`.
  void recipe(std::string& path, std::vector<std::string>& words);
  void overrides(std::vector<std::string>& words);  // only the overrides
  void allow_any_words();

  void on_run(std::function<ExitCode()> run);
  // A function that sees the words after the command's name before they are parsed, and the names of the
  // program's commands. It throws when it can explain better than the parser why the words are wrong.
  using Look =
      std::function<void(const std::vector<std::string>& words, const std::vector<std::string>& commands)>;
  void before_reading(Look look);

 private:
  friend class Program;
  struct Shared;  // shared by all commands of a program
  Command(CLI::App* app, std::shared_ptr<Shared> shared) : app_(app), shared_(std::move(shared)) {}
  template <class Number>
  Option number(const std::string& name, const char* type, Number& into, const std::string& help);

  CLI::App* app_;
  std::shared_ptr<Shared> shared_;
};

// The whole command line: the root of all commands.
class Program {
 public:
  // Its name is program_name() (base/text/text.h).
  Program(const std::string& purpose, const std::vector<Example>& examples,
          std::function<std::string()> version);
  ~Program();
  Command& root() { return root_; }

  // Returns the function that the words ask for; words[0] is the program. --help and --version are printed
  // here and leave nothing to do. Error (64) with the nearest name when the words are not understood.
  std::function<ExitCode()> read(int count, char** words);

 private:
  std::unique_ptr<CLI::App> app_;
  Command root_;
};

}  // namespace longhaul::cli
