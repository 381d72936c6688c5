// The error of a puzzle from a file that cannot be one of its task.
#pragma once

#include <string>
#include <string_view>

namespace longhaul::puzzles {

// Throws Error (kData): `task` is the key of the task, `expected` what its puzzles hold.
[[noreturn]] void refuse_given(std::string_view task, std::string expected);

}  // namespace longhaul::puzzles
