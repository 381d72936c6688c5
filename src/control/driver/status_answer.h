// What a driver answers to who asks for its status, in one frame (frame.h): of a run of a thousand ranks with
// a long story the oldest incidents are left out.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "control/wire/frame.h"

namespace longhaul::control {

// The text of an Answer, of at most so many bytes. A status that is too long without any incident is answered
// with where it can be read.
std::string status_answer(nlohmann::ordered_json status, size_t most_bytes = kFrameLimit - 1024);

}  // namespace longhaul::control
