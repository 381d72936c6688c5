// The folder of this checkout and the folder in which its program was built. These are functions, compiled
// once, so that no other test's object depends on the folder: a second clone then finds all objects in the
// compiler cache.
#pragma once

#include <string>

namespace longhaul {

std::string source_folder();
std::string program_file();  // build/…/longhaul

}  // namespace longhaul
