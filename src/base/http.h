// One HTTP request, as programs on a cluster ask each other for numbers or tell somebody of trouble: GET and POST over http:// or https:// (the system's
// certificates), without redirects or proxies. Errors are kCommunication and name the address. A thin face of cpp-httplib, whose header is known
// to http.cpp alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longhaul {

struct HttpAddress {
  std::string host, path;  // path begins with "/" or is empty
  uint16_t port = 80;
  bool encrypted = false;
};
HttpAddress http_address(std::string_view url);   // "http://host:9090/prefix"; kUsage for anything else
std::string text_of(const HttpAddress& address);  // the same again

struct HttpAnswer {
  int status = 0;
  std::string body;
};
// `target`: the path and query behind the address's own path. Every wait is held to timeout_s, as is the whole of an answer's body; answers over
// `limit_bytes` are refused.
HttpAnswer http_get(const HttpAddress& address, const std::string& target, double timeout_s = 30, int64_t limit_bytes = int64_t{1} << 30);
HttpAnswer http_post(const HttpAddress& address, const std::string& body, const std::string& content_type, double timeout_s = 30,
                     int64_t limit_bytes = int64_t{1} << 20, const std::vector<std::pair<std::string, std::string>>& headers = {});

std::string url_encoded(std::string_view text);

}  // namespace longhaul
