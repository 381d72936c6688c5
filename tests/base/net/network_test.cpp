// Ports and addresses of this machine.
#include "base/net/network.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <system_error>

#include "base/error.h"

namespace longhaul {
namespace {

TEST(Network, FreePortsAreUsable) { EXPECT_GT(free_port(), 1023); }

TEST(Network, AListenerHasThePortAskedForOrAnyThatIsFree) {
  const Listener any = listen_on(0);
  EXPECT_GT(any.port, 1023);
  EXPECT_THROW(listen_on(any.port), std::system_error);
  ::close(any.descriptor);
  const Listener again = listen_on(any.port);
  EXPECT_EQ(again.port, any.port);
  ::close(again.descriptor);
}

TEST(Network, TheWayToThisMachineIsTheLoopback) {
  EXPECT_EQ(own_address_towards("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(own_address_towards("127.0.0.53").substr(0, 4), "127.");
}

TEST(Network, NoWayIsAnError) {
  // RFC 6761: names below .invalid never exist.
  EXPECT_THROW(own_address_towards("nowhere.invalid"), Error);
}

}  // namespace
}  // namespace longhaul
