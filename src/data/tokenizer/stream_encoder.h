// StreamEncoder: the ids of a text that comes in chunks of any size, in bounded memory, equal to the ids of
// the whole text. The text is cut only where the tokenizer knows that no id can depend on the other side.
// Real text has such places everywhere (word ends), so about 256 KiB are held. If there is none for
// `limit_bytes` (a run of eight million letters; a definition whose normalizer or pattern allows no such
// rule), the text is cut all the same, after a line end if there is one in the second half of the buffer,
// else between two characters. Ids may then differ from the whole text's at that one place; decoding still
// gives every byte, and exact() returns false. One thread at a time.
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

  void feed(std::string_view chunk, std::vector<int32_t>& ids);  // appends the ids that are final
  // appends the rest; the next feed begins a new text
  void finish(std::vector<int32_t>& ids);
  bool exact() const { return exact_; }  // there was no forced cut since construction

 private:
  void encode_front(size_t size, bool last, std::vector<int32_t>& ids);
  size_t forced_cut(std::string_view complete) const;

  Tokenizer tokenizer_;
  bool add_special_;
  size_t limit_bytes_;
  std::string buffer_;
  size_t try_again_at_ = 0;  // buffer size at which the next search for a cut is worthwhile
  bool first_ = true;
  bool exact_ = true;
};

}  // namespace longhaul::data
