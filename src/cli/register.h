// The list of all subcommands and tasks of the program, by name: the plug-in point of the command line.
#pragma once

#include <string>

#include "cli/command.h"
#include "train/task_entry.h"

namespace longhaul::cli {

void register_commands(Command& program);
train::TaskEntries tasks();  // the tasks of all domains, which train.task can name
std::string version_text();  // what --version prints
// Printed after what somebody typed was refused, where the program is only a part of the whole; else empty.
std::string what_is_missing();

}  // namespace longhaul::cli
