// What programs that connect to each other must know of this machine: a port that is free, a socket that listens, and the address under
// which another machine reaches it. Nothing is sent to find out.
#pragma once

#include <cstdint>
#include <string>

namespace longhaul {

uint16_t free_port();  // of this machine, for the next who asks

// A descriptor that listens on all of this machine's IPv4 addresses, and its port: 0 takes any that is free. The caller closes it.
// std::system_error where the port is taken.
struct Listener {
  int descriptor;
  uint16_t port;
};
Listener listen_on(uint16_t port);

// This machine's address on the way to the host, as its routes have it. Its own name would not do: many a /etc/hosts has that lead to the
// loopback. kCommunication where there is no way.
std::string own_address_towards(const std::string& host);

// Whether a connection is let in there within a second; by whom is not asked.
bool somebody_listens(const std::string& host, uint16_t port);

// "10.0.0.1", "::1": an address, no name.
bool is_address(const std::string& host);

// While one lives no name server is asked by this thread; what /etc/hosts has is found. For libraries that want the name of an address to show it
// in messages: a server that drops one question in a thousand holds them up for 5 s.
class NoNameServer {
 public:
  NoNameServer();
  ~NoNameServer();
  NoNameServer(const NoNameServer&) = delete;
  NoNameServer& operator=(const NoNameServer&) = delete;

 private:
  int servers_ = 0;  // that this thread knew
};

}  // namespace longhaul
