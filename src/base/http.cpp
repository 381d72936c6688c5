#include "base/http.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/text.h"

namespace longhaul {
namespace {

[[noreturn]] void http_failed(const HttpAddress& address, std::string expected, std::string found) {
  throw Error({.code = ExitCode::kCommunication,
               .what = "an HTTP request failed",
               .expected = std::move(expected),
               .found = std::move(found),
               .where = fmt::format("http://{}:{}{}", address.host, address.port, address.path)});
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

class Connection {
 public:
  Connection(const HttpAddress& address, double timeout_s) : address_(address), timeout_ms_(static_cast<int>(timeout_s * 1000)) {
    addrinfo wanted{}, *found = nullptr;
    wanted.ai_socktype = SOCK_STREAM;
    const int problem = ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &wanted, &found);
    if (problem != 0) http_failed(address, "a host that is known", ::gai_strerror(problem));
    const std::unique_ptr<addrinfo, FreeAddresses> all(found);
    std::string last = "no address";
    for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
      descriptor_ = ::socket(each->ai_family, each->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, each->ai_protocol);
      if (descriptor_ < 0) continue;
      if (::connect(descriptor_, each->ai_addr, each->ai_addrlen) == 0) return;
      if (errno == EINPROGRESS && ready(POLLOUT)) {
        int error = 0;
        socklen_t size = sizeof(error);
        ::getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error == 0) return;
        errno = error;
      }
      last = std::strerror(errno);
      ::close(descriptor_);
      descriptor_ = -1;
    }
    http_failed(address, "a server that listens there", last);
  }
  ~Connection() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void send(std::string_view text) {
    while (!text.empty()) {
      require_ready(POLLOUT);
      const ssize_t sent = ::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (sent < 0) http_failed(address_, "a request that is taken", std::strerror(errno));
      text.remove_prefix(static_cast<size_t>(sent));
    }
  }
  std::string receive_all(int64_t limit_bytes) {
    std::string all;
    char buffer[65536];
    while (true) {
      require_ready(POLLIN);
      const ssize_t got = ::recv(descriptor_, buffer, sizeof(buffer), 0);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got < 0) http_failed(address_, "an answer", std::strerror(errno));
      if (got == 0) return all;
      all.append(buffer, static_cast<size_t>(got));
      if (static_cast<int64_t>(all.size()) > limit_bytes)
        http_failed(address_, fmt::format("an answer of at most {} bytes", limit_bytes), "a longer one");
    }
  }

 private:
  bool ready(int16_t events) const {
    pollfd waiting{descriptor_, events, 0};
    int got = 0;
    while ((got = ::poll(&waiting, 1, timeout_ms_)) < 0 && errno == EINTR) {
    }
    if (got == 0) errno = ETIMEDOUT;
    return got > 0;
  }
  void require_ready(int16_t events) const {
    if (!ready(events)) http_failed(address_, fmt::format("an answer within {} seconds", timeout_ms_ / 1000), std::strerror(errno));
  }

  const HttpAddress& address_;
  int timeout_ms_, descriptor_ = -1;
};

// Content-Length, or -1.
int64_t length_in(std::string_view head) {
  std::string lower(head);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const size_t at = lower.find("\r\ncontent-length:");
  if (at == std::string::npos) return -1;
  const size_t begin = lower.find_first_not_of(' ', at + 17);
  int64_t length = -1;
  if (begin != std::string::npos) std::from_chars(lower.data() + begin, lower.data() + lower.size(), length);
  return length;
}

}  // namespace

HttpAddress http_address(std::string_view url) {
  const auto refuse = [&]() {
    throw Error({.code = ExitCode::kUsage,
                 .what = "cannot read an address",
                 .expected = "http://HOST:PORT or http://HOST:PORT/PATH",
                 .found = std::string(brief(printable(url)))});
  };
  if (!url.starts_with("http://")) refuse();
  std::string_view rest = url.substr(7);
  HttpAddress address;
  const size_t slash = std::min(rest.find('/'), rest.size());
  address.path = rest.substr(slash);
  while (address.path.ends_with('/')) address.path.pop_back();
  rest = rest.substr(0, slash);
  const size_t colon = rest.rfind(':');
  const bool has_port = colon != std::string_view::npos && !rest.ends_with(']');
  if (has_port) {
    const std::string_view port = rest.substr(colon + 1);
    const auto [end, problem] = std::from_chars(port.data(), port.data() + port.size(), address.port);
    if (problem != std::errc() || end != port.data() + port.size() || address.port == 0) refuse();
    rest = rest.substr(0, colon);
  }
  if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
  address.host = rest;
  const bool plain = std::all_of(url.begin(), url.end(), [](unsigned char c) { return c > 32 && c < 127; });
  if (address.host.empty() || !plain) refuse();
  return address;
}

HttpAnswer http_get(const HttpAddress& address, const std::string& target, double timeout_s, int64_t limit_bytes) {
  Connection connection(address, timeout_s);
  connection.send(fmt::format("GET {}{} HTTP/1.0\r\nHost: {}:{}\r\nAccept: */*\r\nConnection: close\r\n\r\n", address.path, target,
                              address.host, address.port));
  const std::string all = connection.receive_all(limit_bytes);
  const size_t end = all.find("\r\n\r\n");
  HttpAnswer answer;
  const bool begins = all.starts_with("HTTP/1.") && all.size() > 12 && end != std::string::npos;
  if (!begins || std::from_chars(all.data() + 9, all.data() + 12, answer.status).ec != std::errc())
    http_failed(address, "an HTTP answer", brief(printable(all)));
  answer.body = all.substr(end + 4);
  const int64_t length = length_in(std::string_view(all).substr(0, end));
  if (length >= 0 && length != static_cast<int64_t>(answer.body.size()))
    http_failed(address, fmt::format("{} bytes", length), fmt::format("{}: the connection was cut", answer.body.size()));
  return answer;
}

std::string url_encoded(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' || c == '~';
    if (plain)
      encoded += c;
    else
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

}  // namespace longhaul
