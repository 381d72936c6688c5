#include "base/net/http.h"

#include <httplib.h>

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "base/error.h"
#include "base/text/number.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

[[noreturn]] void http_failed(const HttpAddress& address, std::string expected, std::string found) {
  throw Error({.code = ExitCode::kCommunication,
               .what = "an HTTP request failed",
               .expected = std::move(expected),
               .found = std::move(found),
               .where = text_of(address)});
}

// As in the address bar of a browser: IPv6 in brackets.
std::string host_text(const HttpAddress& address) {
  return address.host.find(':') == std::string::npos ? address.host : "[" + address.host + "]";
}

HttpAnswer ask(const HttpAddress& address, const char* method, const std::string& target,
               const std::string& body, const std::string& content_type, double timeout_s,
               int64_t limit_bytes, const std::vector<std::pair<std::string, std::string>>& headers = {}) {
  httplib::Client client(
      fmt::format("{}://{}:{}", address.encrypted ? "https" : "http", host_text(address), address.port));
  const auto timeout = std::chrono::microseconds(static_cast<int64_t>(timeout_s * 1e6));
  client.set_connection_timeout(timeout);
  client.set_read_timeout(timeout);
  client.set_write_timeout(timeout);
  HttpAnswer answer;
  const Stopwatch watch;
  bool too_long = false, too_late = false;
  httplib::Request request;
  request.method = method;
  request.path = address.path + target;
  if (request.path.empty()) request.path = "/";
  request.body = body;
  if (!content_type.empty()) request.headers.emplace("Content-Type", content_type);
  for (const auto& [name, value] : headers) request.headers.emplace(name, value);
  request.content_receiver = [&](const char* bytes, size_t count, uint64_t, uint64_t) {
    too_long = static_cast<int64_t>(answer.body.size() + count) > limit_bytes;
    too_late = watch.seconds() > timeout_s;
    if (!too_long && !too_late) answer.body.append(bytes, count);
    return !too_long && !too_late;
  };
  const httplib::Result result = client.send(request);
  if (too_long)
    http_failed(address, fmt::format("an answer of at most {} bytes", limit_bytes), "a longer one");
  if (too_late)
    http_failed(address, fmt::format("an answer within {} seconds", timeout_s), "one that was still coming");
  if (!result) {
    const bool connected =
        result.error() != httplib::Error::Connection && result.error() != httplib::Error::ConnectionTimeout;
    http_failed(
        address,
        connected ? fmt::format("an answer within {} seconds", timeout_s) : "a server that listens there",
        httplib::to_string(result.error()));
  }
  answer.status = result->status;
  return answer;
}

}  // namespace

HttpAddress http_address(std::string_view url) {
  const auto refuse = [&]() {
    throw Error({.code = ExitCode::kUsage,
                 .what = "cannot read an address",
                 .expected = "http://HOST:PORT or http://HOST:PORT/PATH, or the same with https",
                 .found = std::string(brief(printable(url)))});
  };
  HttpAddress address;
  address.encrypted = url.starts_with("https://");
  if (address.encrypted) address.port = 443;
  if (!address.encrypted && !url.starts_with("http://")) refuse();
  std::string_view rest = url.substr(address.encrypted ? 8 : 7);
  const size_t slash = std::min(rest.find('/'), rest.size());
  address.path = rest.substr(slash);
  while (address.path.ends_with('/')) address.path.pop_back();
  rest = rest.substr(0, slash);
  const size_t colon = rest.rfind(':');
  const bool has_port = colon != std::string_view::npos && !rest.ends_with(']');
  if (has_port) {
    const std::string_view port = rest.substr(colon + 1);
    address.port = parse_number<decltype(address.port)>(port).value_or(0);
    if (address.port == 0) refuse();
    rest = rest.substr(0, colon);
  }
  if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
  address.host = rest;
  const bool plain = std::all_of(url.begin(), url.end(), [](unsigned char c) { return c > 32 && c < 127; });
  if (address.host.empty() || !plain) refuse();
  return address;
}

std::string text_of(const HttpAddress& address) {
  return fmt::format("{}://{}:{}{}", address.encrypted ? "https" : "http", host_text(address), address.port,
                     address.path);
}

HttpAnswer http_get(const HttpAddress& address, const std::string& target, double timeout_s,
                    int64_t limit_bytes) {
  return ask(address, "GET", target, "", "", timeout_s, limit_bytes);
}

HttpAnswer http_post(const HttpAddress& address, const std::string& body, const std::string& content_type,
                     double timeout_s, int64_t limit_bytes,
                     const std::vector<std::pair<std::string, std::string>>& headers) {
  return ask(address, "POST", "", body, content_type, timeout_s, limit_bytes, headers);
}

std::string url_encoded(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.' || c == '~';
    if (plain)
      encoded += c;
    else
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

}  // namespace longhaul
