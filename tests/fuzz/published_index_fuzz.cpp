// Fuzz target of a published folder's model.safetensors.index.json beside one whole file of tensors. Opening
// it either throws Error 65 or 66, or gives tensors that all lie in that file.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "base/files/temporary_folder.h"
#include "fuzz/overwrite.h"
#include "storage/published_folder.h"

namespace {

// Two tensors of one byte each.
std::string small_safetensors() {
  const std::string header =
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})";
  std::string text(8, '\0');
  text[0] = static_cast<char>(header.size());
  return text + header + "xy";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul;
  static const TemporaryFolder folder;
  fuzz::overwrite(folder / "part-1.safetensors", small_safetensors());
  fuzz::overwrite(folder / storage::kPublishedIndex, std::string(reinterpret_cast<const char*>(data), size));
  const storage::LocalFileSystem files;
  try {
    const auto opened = storage::PublishedFolder::open(files, folder.path());
    for (const std::string& name : opened.names()) {
      if (opened.file_of(name).filename() != "part-1.safetensors") std::abort();
    }
  } catch (const Error& error) {
    if (error.code() != ExitCode::kData && error.code() != ExitCode::kCheckpoint) std::abort();
  }
  return 0;
}
