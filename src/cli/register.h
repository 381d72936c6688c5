// Everything the program can be asked for, listed by name: the plug-in point of the command line.
#pragma once

#include <string>

#include "cli/command.h"
#include "train/task_entry.h"

namespace longhaul::cli {

void register_commands(Command& program);
train::TaskEntries tasks();  // of all domains: what train.task can name
std::string version_text();  // what --version prints

}  // namespace longhaul::cli
