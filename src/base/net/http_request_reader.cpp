#include "base/net/http_request_reader.h"

#include "base/text/number.h"

#include <algorithm>

namespace longhaul {

void HttpRequestReader::add(std::string_view bytes) {
  if (stage_ == Stage::kHead) {
    bytes_.append(bytes);
    if (!head_ends(bytes_)) return;
    head_ = read_head(bytes_);
    if (head_.refused == 0 && head_.method == "POST" && longest_body_ > 0) head_.refused = read_body_length();
    if (head_.refused != 0) body_bytes_ = 0;
    bytes_.erase(0, std::min(head_.bytes, bytes_.size()));
    stage_ = Stage::kBody;
  } else if (stage_ == Stage::kBody) {
    bytes_.append(bytes.substr(0, body_bytes_ - bytes_.size()));
  }
  if (stage_ == Stage::kBody && bytes_.size() >= body_bytes_) {
    bytes_.resize(body_bytes_);
    stage_ = Stage::kWhole;
  }
}

int HttpRequestReader::read_body_length() {
  const bool has_length = head_.headers.contains("content-length");
  if (head_.headers.contains("transfer-encoding")) return has_length ? 400 : 411;
  if (!has_length) return 411;
  if (const std::string packed = head_.header("content-encoding"); !packed.empty() && packed != "identity")
    return 415;
  // Digits alone: no sign, no blank, and not the list that two such headers make.
  const std::string digits = head_.header("content-length");
  const bool all_digits =
      !digits.empty() && std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
  if (!all_digits) return 400;
  const auto bytes = parse_number<decltype(body_bytes_)>(digits);
  body_bytes_ = bytes.value_or(0);
  return !bytes || body_bytes_ > longest_body_ ? 413 : 0;
}

std::string HttpRequestReader::take_body() { return std::move(bytes_); }

}  // namespace longhaul
