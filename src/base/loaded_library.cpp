#include "base/loaded_library.h"

#include <dlfcn.h>

#include "base/error.h"

namespace longhaul {

std::filesystem::path file_that_holds(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) {
    throw Error({.code = ExitCode::kInternal, .what = "an address belongs to no file of this process"});
  }
  return std::filesystem::canonical(info.dli_fname);
}

void* find_symbol(const char* library, const char* name) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);  // never closed: what was found stays valid
  return handle == nullptr ? nullptr : dlsym(handle, name);
}

}  // namespace longhaul
