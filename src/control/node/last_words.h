// last_words: why this process ends, for the engine that watches it: torchrun's agent reads TORCHELASTIC_ERROR_FILE and names the rank whose file is
// the oldest as the cause; a pod's termination message (/dev/termination-log) stands in `kubectl describe pod`. Nothing where neither is there; never
// throws: the process is about to say the same on standard error.
#pragma once

#include <filesystem>
#include <string>

#include "base/error.h"
#include "control/wire/placement.h"

namespace longhaul::control {

void tell_engine(ExitCode code, const std::string& message, const Environment& environment = variable,
                 const std::filesystem::path& termination_log = "/dev/termination-log");

}  // namespace longhaul::control
