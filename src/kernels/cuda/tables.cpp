#include "kernels/cuda/tables.h"

#include <cstring>
#include <deque>

#include "tensor/device.h"

namespace longhaul::kernels::cuda {
namespace {

// of the microbatches, layouts and operators at hand; of the pages of each layer's cache
constexpr size_t kTablesKept = 256;

struct Kept {
  at::Device device;
  void* stream;
  Tensor host, table;
};

}  // namespace

Tensor table_bytes(const void* bytes, int64_t count, const Tensor& like) {
  thread_local std::deque<Kept> kept;  // latest first
  const at::Device device = like.device();
  void* const stream = current_stream(device);
  for (auto entry = kept.begin(); entry != kept.end(); ++entry) {
    if (entry->device != device || entry->stream != stream || entry->host.numel() != count) continue;
    if (count > 0 && std::memcmp(entry->host.const_data_ptr(), bytes, static_cast<size_t>(count)) != 0)
      continue;
    std::rotate(kept.begin(), entry, entry + 1);
    return kept.front().table;
  }
  const Tensor host = at::empty({count}, at::kByte);
  if (count > 0) std::memcpy(host.mutable_data_ptr(), bytes, static_cast<size_t>(count));
  kept.push_front({device, stream, host, to_device(host, device)});
  if (kept.size() > kTablesKept) kept.pop_back();
  return kept.front().table;
}

}  // namespace longhaul::kernels::cuda
