// StreamEncoder: ids of a text that comes in chunks of any size, in bounded memory, equal to the ids of the whole text.
// The text is cut only where the tokenizer knows that no id can depend on what stands on the other side. Such places are
// everywhere in real text (word ends), so about 256 KiB are held. Where none comes for `limit_bytes` (a run of eight million
// letters; a definition whose normalizer or pattern allows no such rule) the text is cut all the same, after a line end if
// there is one in the second half of the buffer, else between two characters: ids may then differ from the whole text's at
// that one place, decoding still gives every byte, and exact() says so. One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/tokenizer.h"

namespace longhaul::data {

class StreamEncoder {
 public:
  explicit StreamEncoder(Tokenizer tokenizer, bool add_special = false, int64_t limit_bytes = 8 << 20);

  void feed(std::string_view chunk, std::vector<int32_t>& ids);  // appends the ids that are settled
  void finish(std::vector<int32_t>& ids);                        // the rest; the next feed begins a new text
  bool exact() const { return exact_; }                          // no forced cut since construction

 private:
  void encode_front(size_t size, bool last, std::vector<int32_t>& ids);
  size_t forced_cut(std::string_view complete) const;

  Tokenizer tokenizer_;
  bool add_special_;
  size_t limit_bytes_;
  std::string buffer_;
  size_t try_again_at_ = 0;  // buffer size at which looking for a cut is worth it
  bool first_ = true;
  bool exact_ = true;
};

}  // namespace longhaul::data
