// Reads the command line, runs the subcommand that was typed, and turns every failure into a message and an exit code.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "cli/register.h"
#include "tensor/cpu_allocator.h"
#include "tensor/tensor.h"

namespace longhaul::cli {
namespace {

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) names.push_back(command->get_name());
  return names;
}

std::string typed_before(const CLI::App& app) {  // "longhaul checkpoint"
  return app.get_parent() == nullptr ? app.get_name() : typed_before(*app.get_parent()) + " " + app.get_name();
}

bool takes_words(const CLI::App& command) {
  const auto options = command.get_options();
  return std::any_of(options.begin(), options.end(), [](const CLI::Option* option) { return option->get_positional(); });
}

// The command that the words name as far as they do. A word that names none, where one must stand, is refused with the nearest.
const CLI::App& command_of(const CLI::App& program, const std::vector<std::string>& words) {
  const CLI::App* at = &program;
  for (const std::string& word : words) {
    const std::vector<std::string> names = names_of(*at);
    if (names.empty() || word.empty() || word[0] == '-') break;
    const auto named = at->get_subcommands([&](const CLI::App* each) { return each->get_name() == word; });
    if (named.empty() && takes_words(*at)) break;
    if (named.empty()) {
      const std::string nearest = nearest_name(word, names);
      throw Error({.code = ExitCode::kUsage,
                   .what = "unknown command",
                   .expected = fmt::format("{}", fmt::join(names, ", ")),
                   .found = fmt::format("{} {}", typed_before(*at), word),
                   .hint = nearest.empty() ? typed_before(*at) + " --help" : typed_before(*at) + " " + nearest});
    }
    at = named.front();
  }
  return *at;
}

Error usage_error(const CLI::App& command, const std::vector<std::string>& words, const CLI::ParseError& error) {
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  std::string hint = typed_before(command) + " --help";
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    if (!name.starts_with("--") || std::find(known.begin(), known.end(), name) != known.end()) continue;
    if (const std::string nearest = nearest_name(name, known); !nearest.empty()) {
      hint = fmt::format("did you mean {}? {}", nearest, hint);
      break;
    }
  }
  return Error({.code = ExitCode::kUsage,
                .what = "the command line is not understood",
                .found = error.what(),
                .where = typed_before(command),
                .hint = hint});
}

ExitCode run(int count, char** arguments) {
  CLI::App program("Trains large language models with linear and hybrid attention, and keeps them training.", "longhaul");
  program.require_subcommand(1);
  program.set_version_flag(
      "--version", [] { return version_text(); }, "print version, commit, compiler, LibTorch and CPU features");
  program.footer(
      "Examples:\n  # A first run, from nothing to a report\n  longhaul train recipes/first-run.toml\n"
      "  # What an option means, and who set it\n  longhaul config explain recipes/first-run.toml optim.lr\n"
      "  # What this machine is and can do\n  longhaul doctor\n"
      "\nEvery command has --help with examples. Exit codes: docs/reference/exit-codes.md\n");
  Command command;
  register_commands(program, command);

  const std::vector<std::string> words(arguments + 1, arguments + count);
  const CLI::App& typed = command_of(program, words);
  if (words.empty()) {
    print(program.help());
    return ExitCode::kUsage;
  }
  try {
    program.parse(count, arguments);
  } catch (const CLI::Success& asked) {  // --help, --version
    program.exit(asked);
    return ExitCode::kDone;
  } catch (const CLI::ParseError& error) {
    throw usage_error(typed, words, error);
  }
  install_cpu_allocator();
  ExitCode code = ExitCode::kDone;
  try {
    translate_torch_errors([&] { code = command.run(); });
  } catch (const Error& error) {
    const std::string page = troubleshooting_of(error.code());
    fmt::print(stderr, "error: {}\n{}", error.what(), page.empty() ? "" : fmt::format("  {:<9} {}\n", "read", page));
    return error.code();
  }
  return code;
}

int guarded(int count, char** arguments) {
  try {
    return static_cast<int>(run(count, arguments));
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n  this is a bug in Longhaul: please report it with the command that led here\n", error.what());
    return static_cast<int>(ExitCode::kInternal);
  }
}

}  // namespace
}  // namespace longhaul::cli

int main(int count, char** arguments) {
  longhaul::let_waiting_threads_sleep(arguments);
  return longhaul::cli::guarded(count, arguments);
}
