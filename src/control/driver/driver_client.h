// What the command line asks of the driver of a run: its state, to let a node go. By the address and the secret in RUN/control.
#pragma once

#include <filesystem>
#include <string>

#include "control/wire/messages.h"

namespace longhaul::control {

// Error 69 where no driver answers within timeout_s; 64 where the folder is no run of `launch`, or the driver says no.
std::string ask_driver(const std::filesystem::path& run_folder, const ClientMessage& question, double timeout_s = 5);

struct RunStatus {
  std::string text;         // status.json
  bool from_driver = true;  // else as its file has it: no driver runs
};
RunStatus status_of_run(const std::filesystem::path& run_folder);

// For people: a line of the run, one of each node and rank, the last incidents. `status`: status.json.
std::string status_for_people(const std::string& status);

}  // namespace longhaul::control
