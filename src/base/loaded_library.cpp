#include "base/loaded_library.h"

#include <dlfcn.h>
#include <link.h>

#include "base/error.h"

namespace longhaul {

std::filesystem::path file_that_holds(const void* address) {
  Dl_info info{};
  void* map = nullptr;
  if (dladdr1(address, &info, &map, RTLD_DL_LINKMAP) == 0 || map == nullptr) {
    throw Error({.code = ExitCode::kInternal, .what = "an address belongs to no file of this process"});
  }
  // The program itself has no name here, and argv[0] may be another one (./longhaul starts it under its own).
  const std::string name = static_cast<const link_map*>(map)->l_name;
  return std::filesystem::canonical(name.empty() ? "/proc/self/exe" : name);
}

void* find_symbol(const char* library, const char* name) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);  // never closed: what was found stays valid
  return handle == nullptr ? nullptr : dlsym(handle, name);
}

}  // namespace longhaul
