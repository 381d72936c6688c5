// One HTTP request between programs of a cluster, to get numbers or to send an alert: GET and POST over
// http:// or https:// (with the system's certificates), without redirects or proxies. Errors are
// kCommunication and name the address. A thin wrapper of cpp-httplib, whose header only http.cpp includes.
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
std::string text_of(const HttpAddress& address);  // the same text again

struct HttpAnswer {
  int status = 0;
  std::string body;
};
// `target`: the path and query after the address's own path. timeout_s limits every wait, and also the time
// for the whole body of an answer; answers over `limit_bytes` are refused.
HttpAnswer http_get(const HttpAddress& address, const std::string& target, double timeout_s = 30,
                    int64_t limit_bytes = int64_t{1} << 30);
HttpAnswer http_post(const HttpAddress& address, const std::string& body, const std::string& content_type,
                     double timeout_s = 30, int64_t limit_bytes = int64_t{1} << 20,
                     const std::vector<std::pair<std::string, std::string>>& headers = {});

std::string url_encoded(std::string_view text);

}  // namespace longhaul
