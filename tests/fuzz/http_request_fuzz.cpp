// Fuzz target of requests over HTTP: any bytes, in pieces whose lengths the first of them choose. In whatever
// pieces they come, one request is read of them; no more is held than a head and the body that was announced,
// and what is refused has no body.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/net/http_request_reader.h"

namespace {

constexpr size_t kLongestBody = 512;
using Reader = longhaul::HttpRequestReader;

void require(bool good) {
  if (!good) std::abort();
}

void check(const Reader& reader) {
  require(reader.body_bytes() <= kLongestBody);
  if (reader.stage() != Reader::Stage::kHead) require(reader.held() <= reader.body_bytes());
  if (reader.stage() != Reader::Stage::kWhole) return;
  require(reader.held() == reader.body_bytes());
  const longhaul::HttpHead& head = reader.head();
  if (head.refused != 0) return require(reader.held() == 0);
  require(head.path.size() <= longhaul::kLongestHead && !head.method.empty());
  require(head.method == "POST" || reader.held() == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  Reader at_once(kLongestBody);
  at_once.add(all);
  check(at_once);
  if (size == 0) return 0;
  Reader in_pieces(kLongestBody);
  for (size_t at = 0, piece = 0; at < size; ++piece) {
    const size_t length = std::min<size_t>(size - at, 1 + data[piece % size] % 64);
    in_pieces.add(all.substr(at, length));
    at += length;
    check(in_pieces);
  }
  require(at_once.head().refused == in_pieces.head().refused);
  require(at_once.stage() == in_pieces.stage());
  require(at_once.head().path == in_pieces.head().path && at_once.head().headers == in_pieces.head().headers);
  require(at_once.take_body() == in_pieces.take_body());
  return 0;
}
