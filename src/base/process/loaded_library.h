// Shared libraries of this process: which file holds a function or variable (the library it was loaded from, or the program itself),
// and functions of libraries that are there on some machines only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace longhaul {

std::filesystem::path file_that_holds(const void* address);  // without links; kInternal when no file holds it

// Loads the library if need be ("libcuda.so.1", as the linker finds it) and keeps it; null: no such library, or not in it.
void* find_symbol(const char* library, const char* name);

// Where the code of a file lies in this process; of the program itself first. An address minus `base` is the place that addr2line wants.
struct LoadedCode {
  std::filesystem::path file;
  uint64_t begin = 0, end = 0, base = 0;
};
std::vector<LoadedCode> loaded_code();

}  // namespace longhaul
