// One HTTP/1 request as its bytes come in: the head, then the body of a POST, whose length must be told
// beforehand (Content-Length; chunks and packed bodies are refused, as is what two readers could take for two
// lengths). Knows no sockets.
//
//   HttpRequestReader reader(32 << 20);
//   while (reader.stage() != HttpRequestReader::Stage::kWhole) reader.add(bytes_that_came);
//
// It holds no more than a head and the body that was announced; what follows the request is dropped.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/net/http_head.h"

namespace longhaul {

class HttpRequestReader {
 public:
  enum class Stage { kHead, kBody, kWhole };

  // 0: bodies are not read, whatever the head says
  explicit HttpRequestReader(size_t longest_body) : longest_body_(longest_body) {}

  void add(std::string_view bytes);
  Stage stage() const { return stage_; }
  // From kBody on. One that is refused has no body: the request is whole.
  const HttpHead& head() const { return head_; }
  size_t body_bytes() const { return body_bytes_; }  // that were announced
  size_t held() const { return bytes_.size(); }
  std::string take_body();  // of a whole request, once

 private:
  int read_body_length();  // 0, or the status that refuses it

  size_t longest_body_, body_bytes_ = 0;
  Stage stage_ = Stage::kHead;
  HttpHead head_;
  std::string bytes_;  // of the head while it comes; then of the body
};

}  // namespace longhaul
