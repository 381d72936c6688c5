// Fuzz target of the safetensors header. Whatever comes in: either tensors that tile the data exactly, or an
// Error with exit code 66. The input is tried as a whole file, and as the JSON of a header with the right
// length before it.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "storage/safetensors.h"

namespace {

void try_file(std::span<const std::byte> file, int64_t file_bytes) {
  using namespace longhaul;
  try {
    const auto header = storage::parse_safetensors_header(file, file_bytes, "fuzz");
    int64_t end = 0;
    for (const storage::TensorInfo& tensor : header.tensors) {
      if (tensor.begin != end || tensor.end < tensor.begin || tensor.name.empty() || tensor.shape.size() > 8)
        std::abort();
      if (storage::tensor_bytes(tensor.dtype, tensor.shape, "fuzz") != tensor.bytes()) std::abort();
      end = tensor.end;
    }
    if (header.data_begin + end != file_bytes) std::abort();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kCheckpoint) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  try_file(bytes, static_cast<int64_t>(size));
  std::vector<std::byte> framed(8 + size);
  for (size_t i = 0; i < 8; ++i)
    framed[i] = static_cast<std::byte>(static_cast<uint64_t>(size) >> (8 * i) & 0xff);
  std::copy(bytes.begin(), bytes.end(), framed.begin() + 8);
  for (const int64_t data_bytes : {0, 4, 24})
    try_file(framed, static_cast<int64_t>(framed.size()) + data_bytes);
  return 0;
}
