// Reads a safetensors file with Longhaul's reader and writes the same tensors with Longhaul's writer:
//   safetensors_copy IN OUT       prints one JSON object a tensor; exit code as in the error, if any
// Its one user is safetensors_roundtrip.py, which compares both files with the public Python package.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "storage/safetensors.h"

int main(int argc, char** argv) {
  using namespace longhaul;
  if (argc != 3) {
    std::fprintf(stderr, "usage: safetensors_copy IN OUT\n");
    return static_cast<int>(ExitCode::kUsage);
  }
  try {
    storage::LocalFileSystem& files = storage::local_file_system();
    const auto in = storage::SafetensorsFile::open(files, argv[1]);
    std::vector<std::vector<std::byte>> contents;
    std::vector<storage::TensorData> tensors;
    contents.reserve(in.tensors().size());
    for (const storage::TensorInfo& tensor : in.tensors()) {
      contents.push_back(in.read(tensor.name));
      tensors.push_back({tensor.name, tensor.dtype, tensor.shape, contents.back()});
    }
    const auto written = storage::write_safetensors(files, argv[2], tensors, in.metadata());
    for (const storage::TensorInfo& tensor : in.tensors()) {
      const nlohmann::json line = {{"name", tensor.name},
                                   {"dtype", std::string(name_of(tensor.dtype))},
                                   {"shape", tensor.shape},
                                   {"crc32c", written.crc32c.at(tensor.name)}};
      std::printf("%s\n", line.dump().c_str());
    }
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
