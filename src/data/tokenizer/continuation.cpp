#include "data/tokenizer/continuation.h"

#include <algorithm>

namespace longhaul::data {
namespace {

constexpr size_t kMostHeld = 64;  // tokens that are decoded again with each one
constexpr ptrdiff_t kKept = 4;    // number of tokens kept before the next ones

// Bytes of `text` that end with a whole character. Bytes that no continuation can complete count as whole.
size_t whole_characters(std::string_view text) {
  size_t lead = text.size();
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;
    const size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    if (length > back) lead = text.size() - back;
    break;
  }
  return lead;
}

}  // namespace

Continuation::Continuation(const Tokenizer& tokenizer, std::vector<int32_t> prompt)
    : tokenizer_(tokenizer), ids_(std::move(prompt)) {
  decoded_ = tokenizer_.decode(ids_);
  shown_ = decoded_.size();
}

std::string Continuation::add(int32_t id) {
  ids_.push_back(id);
  decoded_ = tokenizer_.decode(ids_);
  const size_t end = whole_characters(decoded_);
  if (end <= shown_) return "";
  const std::string fresh = decoded_.substr(shown_, end - shown_);
  shown_ = end;
  text_ += fresh;
  if (ids_.size() > kMostHeld) forget();
  return fresh;
}

// Drops all but the last tokens, if all was shown and the remaining ones have a text after which others can
// follow.
void Continuation::forget() {
  if (shown_ != decoded_.size() || !tokenizer_.decodes_locally()) return;
  const std::vector<int32_t> last(ids_.end() - kKept, ids_.end());
  const std::string text = tokenizer_.decode(last);
  if (text.empty()) return;
  ids_ = last;
  decoded_ = text;
  shown_ = text.size();
}

std::string Continuation::rest() const { return shown_ < decoded_.size() ? decoded_.substr(shown_) : ""; }

}  // namespace longhaul::data
