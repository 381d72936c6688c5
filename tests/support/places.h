// Where this checkout lies and where its program was built. Functions, compiled once, so that no other test's object depends on the
// folder: a second clone finds all of them in the compiler cache.
#pragma once

#include <string>

namespace longhaul {

std::string source_folder();
std::string program_file();  // build/…/longhaul

}  // namespace longhaul
