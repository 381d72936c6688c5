// Cuts packed documents into chunks of at most `width` tokens, such that no chunk has tokens of two
// documents. The chunked forms of recurrences in LibTorch's operators work on these chunks. A chunk has
// `width` places; those after a document's end are padding. Plain integers; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

namespace longhaul::kernels {

struct DocumentChunks {
  std::vector<int64_t> token;             // [chunks · width]: of each place; 0 where padded
  std::vector<int64_t> place;             // [tokens]
  std::vector<int64_t> length, document;  // of each chunk
  int64_t width = 0;
  int64_t chunks() const { return static_cast<int64_t>(length.size()); }
};

// reverse: each document from its last token to its first.
DocumentChunks document_chunks(const std::vector<int64_t>& offsets, int64_t width, bool reverse = false);

}  // namespace longhaul::kernels
