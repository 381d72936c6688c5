// How this program was called, as it was typed; base/text/text.h has it as a word of a shell's command.
#pragma once

#include <string>

namespace longhaul {

const std::string& program_as_typed();

}  // namespace longhaul
