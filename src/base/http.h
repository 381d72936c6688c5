// One HTTP request over a plain connection, as programs on a cluster's own network ask each other for numbers: GET, without TLS, redirects or
// proxies. HTTP/1.0, so the whole answer is what comes until the other side closes. Errors are kCommunication and name the address.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace longhaul {

struct HttpAddress {
  std::string host, path;  // path begins with "/" or is empty
  uint16_t port = 80;
};
HttpAddress http_address(std::string_view url);  // "http://host:9090/prefix"; kUsage for anything else

struct HttpAnswer {
  int status = 0;
  std::string body;
};
// `target`: the path and query behind the address's own path. Every wait is held to timeout_s; answers over `limit_bytes` are refused.
HttpAnswer http_get(const HttpAddress& address, const std::string& target, double timeout_s = 30, int64_t limit_bytes = int64_t{1} << 30);

std::string url_encoded(std::string_view text);

}  // namespace longhaul
