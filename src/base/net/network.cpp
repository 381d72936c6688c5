#include "base/net/network.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <resolv.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/net/socket.h"

namespace longhaul {

uint16_t free_port() {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  const bool found = descriptor >= 0 && ::bind(descriptor, plain, length) == 0 &&
                     ::getsockname(descriptor, plain, &length) == 0;
  if (!found) {
    throw Error({.code = ExitCode::kInternal,
                 .what = "cannot find a free port",
                 .found = std::generic_category().message(errno)});
  }
  ::close(descriptor);
  return ntohs(address.sin_port);
}

Listener listen_on(uint16_t port) {
  constexpr int kWaiting = 4096;  // queued connections: all ranks connect at once
  constexpr int kYes = 1;         // a port that an earlier run has just released counts as free
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t length = sizeof(address);
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  const bool listens = descriptor >= 0 &&
                       ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &kYes, sizeof(kYes)) == 0 &&
                       ::bind(descriptor, plain, length) == 0 && ::listen(descriptor, kWaiting) == 0 &&
                       ::getsockname(descriptor, plain, &length) == 0;
  if (!listens) {
    const int reason = errno;
    if (descriptor >= 0) ::close(descriptor);
    throw std::system_error(reason, std::generic_category(), fmt::format("port {}", port));
  }
  return {.descriptor = descriptor, .port = ntohs(address.sin_port)};
}

std::string own_address_towards(const std::string& host) {
  // A connected datagram socket sends nothing.
  const addrinfo wanted{.ai_socktype = SOCK_DGRAM};
  addrinfo* list = nullptr;
  std::string found;
  if (::getaddrinfo(host.c_str(), "9", &wanted, &list) == 0) {
    for (const addrinfo* one = list; one && found.empty(); one = one->ai_next) {
      const int descriptor = ::socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
      sockaddr_storage own{};
      socklen_t length = sizeof(own);
      std::array<char, NI_MAXHOST> text{};
      auto* plain = reinterpret_cast<sockaddr*>(&own);
      const bool known =
          descriptor >= 0 && ::connect(descriptor, one->ai_addr, one->ai_addrlen) == 0 &&
          ::getsockname(descriptor, plain, &length) == 0 &&
          ::getnameinfo(plain, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0;
      if (known) found = text.data();
      if (descriptor >= 0) ::close(descriptor);
    }
    ::freeaddrinfo(list);
  }
  if (found.empty()) {
    throw Error({.code = ExitCode::kCommunication,
                 .what = "no way leads from this machine to rank 0",
                 .expected = "an address or a name that this machine's routes know",
                 .found = host,
                 .where = "MASTER_ADDR",
                 .hint = "GLOO_SOCKET_IFNAME names the network interface, where the routes do not"});
  }
  return found;
}

bool somebody_listens(const std::string& host, uint16_t port) {
  constexpr int kPatience_ms = 1000;
  try {
    const Socket socket = Socket::connect({host, port});
    pollfd ready{.fd = socket.descriptor(), .events = POLLOUT, .revents = 0};
    return ::poll(&ready, 1, kPatience_ms) == 1 && socket.problem() == 0;
  } catch (const Error&) {
    return false;  // a name without an address
  }
}

bool is_address(const std::string& host) {
  in6_addr any{};
  return ::inet_pton(AF_INET, host.c_str(), &any) == 1 || ::inet_pton(AF_INET6, host.c_str(), &any) == 1;
}

// glibc's resolver has its state by thread, and keeps to what a program wrote there.
NoNameServer::NoNameServer() {
  if (::res_init() == 0) servers_ = std::exchange(_res.nscount, 0);
}
NoNameServer::~NoNameServer() { _res.nscount = servers_; }

}  // namespace longhaul
