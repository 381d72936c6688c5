#include "kernels/document_chunks.h"

#include <algorithm>

namespace longhaul::kernels {

DocumentChunks document_chunks(const std::vector<int64_t>& offsets, int64_t width, bool reverse) {
  DocumentChunks chunks{.place = std::vector<int64_t>(static_cast<size_t>(offsets.back())), .width = width};
  for (size_t n = 0; n + 1 < offsets.size(); ++n) {
    const int64_t begin = offsets[n], end = offsets[n + 1];
    for (int64_t start = begin; start < end; start += width) {
      const int64_t length = std::min(width, end - start);
      for (int64_t i = 0; i < width; ++i) {
        const int64_t token = reverse ? begin + end - 1 - start - i : start + i;
        if (i < length) chunks.place[static_cast<size_t>(token)] = static_cast<int64_t>(chunks.token.size());
        chunks.token.push_back(i < length ? token : 0);
      }
      chunks.length.push_back(length);
      chunks.document.push_back(static_cast<int64_t>(n));
    }
  }
  return chunks;
}

}  // namespace longhaul::kernels
