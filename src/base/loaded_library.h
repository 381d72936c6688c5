// Which file of this process holds a function or variable: the shared library it was loaded from, or the program itself.
#pragma once

#include <filesystem>

namespace longhaul {

std::filesystem::path file_that_holds(const void* address);  // without links; kInternal when no file holds it

}  // namespace longhaul
