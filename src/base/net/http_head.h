// The head of an HTTP/1 request, from bytes that came over a network: what is asked, and the few headers that
// our server looks at. Strict where readers could differ (two Host headers, control characters, spaces before
// a colon, folded lines: 400), so that no proxy in front understands another request than we do. Knows no
// sockets.
//
//   if (head_ends(bytes)) const HttpHead head = read_head(bytes);
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace longhaul {

inline constexpr size_t kLongestHead = 8192;  // bytes

struct HttpHead {
  // 0: it can be read; else the status that says why not: 400, 414, 431, 505
  int refused = 0;
  size_t bytes = 0;                               // that it is long, the empty line included
  std::string method, version;                    // "GET", "HTTP/1.1"
  std::string path;                               // decoded, without the query
  std::multimap<std::string, std::string> query;  // decoded
  // Names in lower case; values of the same name are joined by ", ".
  std::map<std::string, std::string> headers;
  std::string header(const std::string& lower_case_name) const;
};

bool head_ends(std::string_view bytes);      // the empty line has come, or more bytes than a head may have
HttpHead read_head(std::string_view bytes);  // call it once the head has ended

}  // namespace longhaul
