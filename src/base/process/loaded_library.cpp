#include "base/process/loaded_library.h"

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

std::vector<LoadedCode> loaded_code() {
  const auto add = [](dl_phdr_info* info, size_t, void* to) {
    LoadedCode code{.file = info->dlpi_name != nullptr ? info->dlpi_name : "", .base = info->dlpi_addr};
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& part = info->dlpi_phdr[i];
      if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
      code.begin = info->dlpi_addr + part.p_vaddr;
      code.end = code.begin + part.p_memsz;
    }
    static_cast<std::vector<LoadedCode>*>(to)->push_back(std::move(code));
    return 0;
  };
  std::vector<LoadedCode> all;
  ::dl_iterate_phdr(add, &all);
  std::error_code none;
  // The program itself has no name there.
  if (!all.empty()) all[0].file = std::filesystem::read_symlink("/proc/self/exe", none);
  return all;
}

}  // namespace longhaul
