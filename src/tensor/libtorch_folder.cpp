#include "tensor/libtorch_folder.h"

#include <c10/util/Exception.h>
#if __has_include(<torch/headeronly/version.h>)
#include <torch/headeronly/version.h>
#else
#include <torch/csrc/api/include/torch/version.h>
#endif

#include "base/process/loaded_library.h"

namespace longhaul {

std::filesystem::path libtorch_folder() {
  using Function = void (*)(const char*, const char*, uint32_t, const char*);
  const Function in_libc10 = &c10::detail::torchCheckFail;  // any function of libc10.so would do
  return file_that_holds(reinterpret_cast<const void*>(in_libc10)).parent_path().parent_path();
}

std::string libtorch_version() { return TORCH_VERSION; }

}  // namespace longhaul
