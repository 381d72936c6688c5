#include "base/net/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/text/number.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

AddressList addresses_of(const Endpoint& endpoint, int flags) {
  const addrinfo wanted{.ai_flags = flags | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
  addrinfo* list = nullptr;
  const int problem =
      ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &wanted, &list);
  if (problem != 0) {
    throw Error({.code = ExitCode::kCommunication,
                 .what = "cannot find an address",
                 .expected = "a host that this machine knows",
                 .found = ::gai_strerror(problem),
                 .where = endpoint.text()});
  }
  return {list, &::freeaddrinfo};
}

std::string address_text(const sockaddr_storage& address, socklen_t length, bool with_port) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  const int problem = ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, host.data(),
                                    host.size(), port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV);
  if (problem != 0) return "unknown";
  return with_port ? Endpoint{host.data(), static_cast<uint16_t>(std::atoi(port.data()))}.text()
                   : host.data();
}

void set_option(int descriptor, int level, int option) {
  constexpr int kYes = 1;
  ::setsockopt(descriptor, level, option, &kYes, sizeof(kYes));  // a refused option only costs speed
}

}  // namespace

std::string Endpoint::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

Endpoint parse_endpoint(std::string_view text, const std::string& where) {
  Endpoint endpoint;
  const size_t colon = text.rfind(':');
  const std::string_view port = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  std::string_view host = text.substr(0, std::min(colon, text.size()));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const auto number = parse_number<decltype(endpoint.port)>(port);
  endpoint.port = number.value_or(0);
  if (host.empty() || !number) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "cannot read an address",
                 .expected = "HOST:PORT, as 10.0.0.1:29400",
                 .found = brief(printable(text)),
                 .where = where});
  }
  endpoint.host = host;
  return endpoint;
}

Socket Socket::listen(const Endpoint& endpoint) {
  constexpr int kWaiting = 1024;
  const AddressList list = addresses_of(endpoint, AI_PASSIVE);
  int reason = 0;
  for (const addrinfo* one = list.get(); one; one = one->ai_next) {
    Socket socket(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    // A port that an earlier driver has just released counts as free.
    if (socket) set_option(socket.descriptor_, SOL_SOCKET, SO_REUSEADDR);
    if (socket && ::bind(socket.descriptor_, one->ai_addr, one->ai_addrlen) == 0 &&
        ::listen(socket.descriptor_, kWaiting) == 0)
      return socket;
    reason = errno;
  }
  throw Error({.code = ExitCode::kCommunication,
               .what = "cannot open the port that nodes connect to",
               .expected = "an address of this machine and a port that is free",
               .found = std::generic_category().message(reason),
               .where = endpoint.text(),
               .hint = "give another one: --listen HOST:PORT (port 0: any that is free)"});
}

Socket Socket::connect(const Endpoint& endpoint) {
  const AddressList list = addresses_of(endpoint, 0);
  int reason = 0;
  for (const addrinfo* one = list.get(); one; one = one->ai_next) {
    Socket socket(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) continue;
    set_option(socket.descriptor_, IPPROTO_TCP, TCP_NODELAY);
    if (::connect(socket.descriptor_, one->ai_addr, one->ai_addrlen) == 0 || errno == EINPROGRESS)
      return socket;
    reason = errno;
  }
  throw Error({.code = ExitCode::kCommunication,
               .what = "cannot connect",
               .found = std::generic_category().message(reason),
               .where = endpoint.text()});
}

Socket::~Socket() { close(); }
Socket::Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void Socket::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

std::optional<Socket> Socket::accept(bool* out_of_descriptors) const {
  const int descriptor = ::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (descriptor < 0) {
    if (out_of_descriptors != nullptr)
      *out_of_descriptors = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
    return std::nullopt;
  }
  set_option(descriptor, IPPROTO_TCP, TCP_NODELAY);
  return Socket(descriptor);
}

uint16_t Socket::port() const {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

std::string Socket::own_address() const {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &length) != 0) return "unknown";
  return address_text(address, length, false);
}

std::string Socket::peer() const {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (::getpeername(descriptor_, reinterpret_cast<sockaddr*>(&address), &length) != 0) return "unknown";
  return address_text(address, length, true);
}

int Socket::problem() const {
  int problem = 0;
  socklen_t length = sizeof(problem);
  return ::getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &problem, &length) == 0 ? problem : errno;
}

Socket::Result Socket::read(std::string& onto, size_t most_bytes) {
  const size_t before = onto.size();
  onto.resize(before + most_bytes);
  ssize_t count = 0;
  do count = ::recv(descriptor_, onto.data() + before, most_bytes, 0);
  while (count < 0 && errno == EINTR);
  const int reason = errno;
  onto.resize(before + static_cast<size_t>(std::max<ssize_t>(0, count)));
  if (count > 0) return Result::kSome;
  return count < 0 && (reason == EAGAIN || reason == EWOULDBLOCK) ? Result::kNothing : Result::kEnd;
}

Socket::Result Socket::write(std::string_view bytes, size_t& written) {
  ssize_t count = 0;
  do count = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  while (count < 0 && errno == EINTR);
  written = static_cast<size_t>(std::max<ssize_t>(0, count));
  if (count >= 0) return Result::kSome;
  return errno == EAGAIN || errno == EWOULDBLOCK ? Result::kNothing : Result::kEnd;
}

}  // namespace longhaul
