// last_words tells the engine that watches this process why it ends. torchrun's agent reads
// TORCHELASTIC_ERROR_FILE and names the rank whose file is the oldest as the cause; `kubectl describe pod`
// shows a pod's termination message (/dev/termination-log). Where neither exists nothing is written. The
// function never throws, because the process is about to print the same message on standard error.
#pragma once

#include <filesystem>
#include <string>

#include "base/error.h"
#include "control/wire/placement.h"

namespace longhaul::control {

void tell_engine(ExitCode code, const std::string& message, const Environment& environment = variable,
                 const std::filesystem::path& termination_log = "/dev/termination-log");

}  // namespace longhaul::control
