// The commands and tasks of build/release/longhaul-first, which is all that a first run needs
// (CMakeLists.txt).
#include "cli/register.h"
#include "language/tasks.h"

namespace longhaul::cli {

void add_train(Command& program);
void add_sample(Command& program);
void add_config(Command& program);

train::TaskEntries tasks() { return language::tasks(); }

void register_commands(Command& program) {
  train::declare_options(tasks());
  program.heading("Train and use");
  add_train(program);
  add_sample(program);
  add_config(program);
}

std::string what_is_missing() {
  return "  this is the part of the program that a first run needs: `./longhaul build` makes the whole, with "
         "more "
         "tasks and options\n";
}

}  // namespace longhaul::cli
