#include "tensor/content_hash.h"

#include <vector>

#include "base/checksum.h"
#include "base/threads/parallel.h"

namespace longhaul {

uint64_t content_hash(const Tensor& tensor) {
  constexpr int64_t kBlock = 1 << 20;
  const Tensor here = tensor.detach().cpu().contiguous();
  const auto bytes = static_cast<int64_t>(here.nbytes());
  const auto* const data = static_cast<const std::byte*>(here.const_data_ptr());
  std::vector<uint64_t> hashes(static_cast<size_t>((bytes + kBlock - 1) / kBlock));
  parallel_for(0, static_cast<int64_t>(hashes.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      hashes[static_cast<size_t>(i)] =
          xxh3(std::span(data + i * kBlock, static_cast<size_t>(std::min(kBlock, bytes - i * kBlock))));
    }
  });
  return xxh3(std::as_bytes(std::span(hashes)));
}

}  // namespace longhaul
