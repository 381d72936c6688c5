// Command: how a subcommand joins the program. Each has one file with one function
//
//   void add_checkpoint(Command& program);
//
// listed in register.cpp. It declares its arguments and, through on_run(), what to do when it was the one typed. Nothing runs
// while the command line is read; main() runs it afterwards and turns what it throws into a message and an exit code.
// Subcommands hold no logic of their own: they read arguments, call one of the folders above, and print (cli/output.h).
//
//   struct Arguments { std::string path; int64_t keep = 3; bool json = false; };
//   auto arguments = std::make_shared<Arguments>();
//   Command prune = group.add("prune", "remove old checkpoints", {{"keep two", "checkpoint prune runs/a --keep 2"}, …});
//   prune.option("PATH", arguments->path, "a run folder").required();
//   prune.option("--keep", arguments->keep, "newest checkpoints kept").at_least(1).default_shown();
//   prune.json_flag(arguments->json);
//   prune.on_run([arguments] { …; return ExitCode::kDone; });
//
// The variables are filled while the command line is read and must outlive it: they belong to what on_run() holds. CLI11 does the
// reading; only command.cpp knows it, because its header costs ten seconds in every file that includes it.
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

// Refines an argument that was just declared. A value that is refused ends the program with kUsage (64).
class Option {
 public:
  Option& required();
  Option& hidden();         // from --help: for the program's own use
  Option& default_shown();  // --help tells the value that the variable has now
  Option& one_each();       // of a list: each value has the name in front, so that a word in its place may follow
  // Of numbers.
  Option& at_least(double least);
  Option& above(double limit);
  Option& at_most(double most);
  // Of text; which must not be empty unless said so.
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
  // A command below this one. --help of every command ends with its examples: three of them.
  Command add(const std::string& name, const std::string& purpose, const std::vector<Example>& examples);
  // One that only holds others (`checkpoint`): one of them must follow.
  Command add_group(const std::string& name, const std::string& purpose, const std::vector<Example>& examples);
  void heading(const std::string& text);  // commands added from here on stand under it in --help

  // A name with dashes ("--out") takes a value, one without ("PATH") is a word in its place.
  Option option(const std::string& name, std::string& into, const std::string& help);
  Option option(const std::string& name, std::vector<std::string>& into, const std::string& help);
  Option option(const std::string& name, int64_t& into, const std::string& help);
  Option option(const std::string& name, uint64_t& into, const std::string& help);
  Option option(const std::string& name, double& into, const std::string& help);
  Option option(const std::string& name, std::optional<double>& into, const std::string& help);  // none: not given
  void flag(const std::string& name, bool& into, const std::string& help);
  void json_flag(bool& json, const std::string& help = "print JSON for machines");
  // The positional RECIPE with its overrides: `RECIPE [key=value …]`.
  void recipe(std::string& path, std::vector<std::string>& words);
  void overrides(std::vector<std::string>& words);  // alone
  void allow_any_words();

  void on_run(std::function<ExitCode()> run);
  // Sees the words that were typed behind the command's name before they are read, and the names of the program's commands; throws what says better than
  // the reading why they cannot be meant.
  using Look = std::function<void(const std::vector<std::string>& words, const std::vector<std::string>& commands)>;
  void before_reading(Look look);

 private:
  friend class Program;
  struct Shared;  // of all commands of a program
  Command(CLI::App* app, std::shared_ptr<Shared> shared) : app_(app), shared_(std::move(shared)) {}
  template <class Number>
  Option number(const std::string& name, const char* type, Number& into, const std::string& help);

  CLI::App* app_;
  std::shared_ptr<Shared> shared_;
};

// The whole command line: a command that the others stand below.
class Program {
 public:
  // Called as program_name() (base/text/text.h) says.
  Program(const std::string& purpose, const std::vector<Example>& examples, std::function<std::string()> version);
  ~Program();
  Command& root() { return root_; }

  // What the words ask for, to be called; words[0] is the program. --help and --version are printed here and leave nothing to do.
  // Error (64) with the nearest name when they are not understood.
  std::function<ExitCode()> read(int count, char** words);

 private:
  std::unique_ptr<CLI::App> app_;
  Command root_;
};

}  // namespace longhaul::cli
