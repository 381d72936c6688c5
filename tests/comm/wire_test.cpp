// What Wire asks of c10d.
#include "comm/wire.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>

namespace longhaul::comm {
namespace {

// Of the socket of this process that listens on the port.
std::optional<int> family_of_listener(uint16_t port) {
  for (int descriptor = 3; descriptor < 1024; ++descriptor) {
    int listens = 0;
    socklen_t length = sizeof(listens);
    if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0) continue;
    sockaddr_in6 address{};  // the port of an IPv4 address lies at the same place
    length = sizeof(address);
    if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) != 0) continue;
    if (ntohs(address.sin6_port) == port) return address.sin6_family;
  }
  return std::nullopt;
}

// On a socket of IPv6 c10d's store would ask a name server for the name of ::ffff:127.0.0.1 whenever a rank comes, and serve nobody
// until it answers: 5 s where none does.
TEST(Wire, TheStoreOfIPv4RanksListensOnIPv4) {
  const Wire wire({.serves = true});
  EXPECT_EQ(family_of_listener(wire.port()), AF_INET);
}

TEST(Wire, APortInUseIsAnError) {
  const Wire wire({.serves = true});
  EXPECT_THROW(Wire({.port = wire.port(), .serves = true}), std::exception);
}

}  // namespace
}  // namespace longhaul::comm
