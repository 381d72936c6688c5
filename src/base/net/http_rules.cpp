#include "base/net/http_rules.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "base/machine/machine.h"
#include "base/net/secret.h"
#include "base/text/base64.h"

namespace longhaul {
namespace {

bool is_address(const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return ::inet_pton(AF_INET, host.c_str(), bytes) == 1 || ::inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

// "host:port", "[::1]:port", "host" → the host alone.
std::string host_of(std::string header) {
  if (header.starts_with('[')) return header.substr(1, header.find(']') - 1);
  return header.substr(0, header.rfind(':'));
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

const char* reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 302:
      return "Found";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 421:
      return "Misdirected Request";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 503:
      return "Service Unavailable";
    default:
      return status < 500 ? "Bad Request" : "Internal Server Error";
  }
}

std::string text_of_refusal(int status, size_t longest_body) {
  switch (status) {
    case 411:
      return "The length of the body must be told: send Content-Length. Chunks are not taken.";
    case 413:
      return fmt::format(
          "The body is longer than {} bytes, which is the most that is taken. Send it in parts.",
          longest_body);
    case 415:
      return "The body must be sent as it is, without Content-Encoding.";
    default:
      return "This request cannot be read.";
  }
}

// A header's value must not begin another header.
std::string one_line(std::string text) {
  std::erase_if(text, [](unsigned char c) { return c < 32 || c == 127; });
  return text;
}

}  // namespace

HttpReply http_refusal(int status, std::string text) {
  return {.status = status, .type = "text/plain; charset=utf-8", .body = std::move(text) + "\n"};
}

static std::string head_of(const HttpReply& reply, const std::string& length_name,
                           const std::string& length) {
  std::map<std::string, std::string> headers = {{"Cache-Control", "no-store"},
                                                {"Connection", "close"},
                                                {"Content-Security-Policy", "default-src 'none'"},
                                                {"Content-Type", reply.type},
                                                {"Referrer-Policy", "no-referrer"},
                                                {"X-Content-Type-Options", "nosniff"},
                                                {"X-Frame-Options", "DENY"}};
  if (!length_name.empty()) headers[length_name] = length;
  for (const auto& [name, value] : reply.headers) headers[name] = value;
  std::string bytes = fmt::format("HTTP/1.1 {} {}\r\n", reply.status, reason_of(reply.status));
  for (const auto& [name, value] : headers) bytes += fmt::format("{}: {}\r\n", name, one_line(value));
  return bytes + "\r\n";
}

std::string http_bytes(const HttpReply& reply, bool with_body) {
  const std::string head = head_of(reply, "Content-Length", std::to_string(reply.body.size()));
  return with_body ? head + reply.body : head;
}

std::string http_stream_head(const HttpReply& reply, bool in_chunks) {
  return head_of(reply, in_chunks ? "Transfer-Encoding" : "", "chunked");
}

bool HttpRules::knows(const std::string& header) const {
  const std::string host = lower_case(host_of(header));
  if (host.empty()) return false;
  const auto is = [&](const std::string& name) { return host == lower_case(name); };
  return is_address(host) || is("localhost") || is(options.host) || is(machine().host) ||
         std::ranges::any_of(options.names, is);
}

// It takes as long for a wrong token as for the right one.
bool HttpRules::has_token(const std::string& authorization) const {
  if (options.token.empty() || equal_in_constant_time(authorization, "Bearer " + options.token)) return true;
  return equal_in_constant_time(authorization, "Basic " + base64("longhaul:" + options.token)) ||
         equal_in_constant_time(authorization, "Basic " + base64(":" + options.token));
}

std::optional<HttpReply> HttpRules::refused(const HttpHead& head) const {
  if (head.refused != 0)
    return http_refusal(head.refused, text_of_refusal(head.refused, options.longest_body));
  const bool posts = options.longest_body > 0;
  if (head.method != "GET" && head.method != "HEAD" && !(posts && head.method == "POST")) {
    HttpReply reply = http_refusal(
        405, posts ? "This server knows GET, HEAD and POST." : "This server is for reading: GET and HEAD.");
    reply.headers.emplace_back("Allow", posts ? "GET, HEAD, POST" : "GET, HEAD");
    return reply;
  }
  if (!knows(head.header("host")))
    return http_refusal(
        421, "This server is not known by that name. Use its address, or start it with --name NAME.");
  if (const std::string expected = head.header("expect"); !expected.empty() && expected != "100-continue")
    return http_refusal(417, "Expect: 100-continue is the one expectation that is known here.");
  if (has_token(head.header("authorization"))) return std::nullopt;
  HttpReply reply = http_refusal(401, "A token is asked for: the user is longhaul, the password the token.");
  reply.headers.emplace_back("WWW-Authenticate", "Basic realm=\"longhaul\", charset=\"UTF-8\"");
  return reply;
}

}  // namespace longhaul
