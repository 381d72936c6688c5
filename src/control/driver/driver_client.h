// The requests of the command line to the driver of a run: its state, or to evict a node. They use the
// address and the secret in RUN/control.
#pragma once

#include <filesystem>
#include <string>

#include "control/wire/messages.h"

namespace longhaul::control {

// Error 69 where no driver answers within timeout_s; error 64 where the folder is no run of `launch`, or the
// driver refuses.
std::string ask_driver(const std::filesystem::path& run_folder, const ClientMessage& question,
                       double timeout_s = 5);

struct RunStatus {
  std::string text;         // status.json
  bool from_driver = true;  // false: no driver answered, and the text is that of the file
  // The process of this machine that drives the run and did not answer; none: no driver runs here.
  std::optional<int64_t> silent_driver = std::nullopt;
};
RunStatus status_of_run(const std::filesystem::path& run_folder);

// Formats `status` (the text of status.json) for people: a line for the run, one for each node and each rank,
// and the last incidents.
std::string status_for_people(const std::string& status);

}  // namespace longhaul::control
