// Shared libraries of this process: the file that holds a function or variable (the library from which it was
// loaded, or the program itself), and functions of libraries that exist on some machines only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace longhaul {

// With links resolved; kInternal when no file holds it.
std::filesystem::path file_that_holds(const void* address);

// Loads the library if necessary ("libcuda.so.1", as the linker finds it) and keeps it. Null: there is no
// such library, or it has no such symbol.
void* find_symbol(const char* library, const char* name);

// LoadedCode: the addresses of a file's code in this process; the first entry is the program itself. An
// address minus `base` is the offset that addr2line needs.
struct LoadedCode {
  std::filesystem::path file;
  uint64_t begin = 0, end = 0, base = 0;
};
std::vector<LoadedCode> loaded_code();

}  // namespace longhaul
