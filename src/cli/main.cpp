// Reads the command line, runs the subcommand that was typed, and turns every failure into a message and an
// exit code.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>

#include "base/error.h"
#include "base/log_form.h"
#include "base/process/process.h"
#include "base/process/process_limits.h"
#include "base/terminal.h"
#include "base/text/text.h"
#include "base/threads/parallel.h"
#include "cli/output.h"
#include "cli/register.h"
#include "control/node/last_words.h"
#include "control/node/rank_environment.h"
#include "control/wire/placement.h"
#include "tensor/cpu_allocator.h"
#include "tensor/tensor.h"

namespace longhaul::cli {
namespace {

ExitCode run(int count, char** arguments) {
  Program program("Trains large language models with linear and hybrid attention, and keeps them training.",
                  {{"A first run, from nothing to a report", "train recipes/first-run.toml"},
                   {"What an option means, and who set it", "config explain recipes/first-run.toml optim.lr"},
                   {"What this machine is and can do", "doctor"}},
                  [] { return version_text(); });
  choose_log_form();
  register_commands(program.root());
  const auto asked_for = program.read(count, arguments);
  install_cpu_allocator();
  ExitCode code = ExitCode::kDone;
  try {
    translate_torch_errors([&] { code = asked_for(); });
  } catch (const Error& error) {
    report(error);
    if (error.code() == ExitCode::kUsage) say(stderr, what_is_missing());
    return error.code();
  }
  return code;
}

int guarded(int count, char** arguments) {
  try {
    return static_cast<int>(run(count, arguments));
  } catch (const Error& error) {
    say(stderr, fmt::format("error: {}\n", error.what()));
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    control::tell_engine(ExitCode::kInternal, error.what());
    say(stderr,
        fmt::format(
            "error: {}\n  this is a bug in Longhaul: please report it with the command that led here\n",
            error.what()));
    return static_cast<int>(ExitCode::kInternal);
  }
}

}  // namespace
}  // namespace longhaul::cli

int main(int count, char** arguments) {
  longhaul::open_standard_streams();
  longhaul::raise_open_files();
  longhaul::forbid_core_dumps();
  longhaul::let_waiting_threads_sleep(arguments);
  // A rank of `launch` tells what to type as it was typed there.
  if (count > 0)
    longhaul::set_program_name(
        longhaul::control::variable(longhaul::control::kTypedAs).value_or(arguments[0]));
  return longhaul::cli::guarded(count, arguments);
}
