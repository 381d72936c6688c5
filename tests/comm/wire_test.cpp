// What Wire asks of c10d.
#include "comm/gloo/wire.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <resolv.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <thread>

#include "base/net/network.h"

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

// On a socket of IPv6 c10d's store would ask a name server for the name of ::ffff:127.0.0.1 whenever a rank
// comes, and serve nobody until it answers: 5 s where none does.
TEST(Wire, TheStoreOfIPv4RanksListensOnIPv4) {
  const Wire wire({.serves = true});
  EXPECT_EQ(family_of_listener(wire.port()), AF_INET);
}

// Of a client that goes by an address; a question that is not answered costs it 5 s.
TEST(Wire, AClientAsksNoNameServer) {
  const int server = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address{
      .sin_family = AF_INET, .sin_port = 0, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t length = sizeof(address);
  ASSERT_EQ(::bind(server, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::getsockname(server, reinterpret_cast<sockaddr*>(&address), &length), 0);
  std::thread([&] {  // whose name server this is
    ASSERT_EQ(::res_init(), 0);
    _res.nscount = 1, _res.nsaddr_list[0] = address, _res.retrans = 1, _res.retry = 1;
    const Wire wire({.serves = true});
    EXPECT_EQ(_res.nscount, 1) << "it is known again";
  })
      .join();
  char question = 0;
  EXPECT_EQ(::recv(server, &question, 1, 0), -1) << "a question came";
  ::close(server);
}

TEST(Wire, APortInUseIsAnError) {
  const Wire wire({.serves = true});
  EXPECT_THROW(Wire({.port = wire.port(), .serves = true}), std::exception);
}

std::string refusal_of(uint16_t port) {
  try {
    Wire({.port = port, .serves = false, .timeout = std::chrono::milliseconds(100)});
    return "reached";
  } catch (const std::exception& error) {
    return error.what();
  }
}

// Of a port that another program took before rank 0 could: it lets clients in, and says nothing.
TEST(Wire, WhoeverListensButIsNoStoreIsAnErrorInTime) {
  const Listener other = listen_on(0);
  EXPECT_NE(refusal_of(other.port).find("another program"), std::string::npos);
  ::close(other.descriptor);
  EXPECT_NE(refusal_of(other.port).find("nobody listens"), std::string::npos);
}

}  // namespace
}  // namespace longhaul::comm
