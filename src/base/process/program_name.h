// The name by which this program was called, as it was typed; base/text/text.h has it quoted for a shell.
#pragma once

#include <string>

namespace longhaul {

const std::string& program_as_typed();

}  // namespace longhaul
