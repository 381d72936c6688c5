// Facts about this machine that programs need to connect to each other: a free port, a listening socket, and
// the address under which another machine reaches it. Nothing is sent to find them.
#pragma once

#include <cstdint>
#include <string>

namespace longhaul {

uint16_t free_port();  // a port of this machine that is free now

// listen_on() returns a descriptor that listens on all IPv4 addresses of this machine, and its port; port 0
// takes any free one. The caller closes the descriptor. std::system_error where the port is taken.
struct Listener {
  int descriptor;
  uint16_t port;
};
Listener listen_on(uint16_t port);

// This machine's address on its route to the host. Its own host name would not do, because many an /etc/hosts
// maps it to the loopback. kCommunication where there is no route.
std::string own_address_towards(const std::string& host);

// True if a connection to it succeeds within a second; it does not matter which program listens.
bool somebody_listens(const std::string& host, uint16_t port);

// True for an address like "10.0.0.1" or "::1", false for a name.
bool is_address(const std::string& host);

// NoNameServer: while an object lives, this thread asks no name server; names in /etc/hosts are found. It is
// for libraries that look up the name of an address only to show it in messages: a server that drops one
// question in a thousand would delay them by 5 s.
class NoNameServer {
 public:
  NoNameServer();
  ~NoNameServer();
  NoNameServer(const NoNameServer&) = delete;
  NoNameServer& operator=(const NoNameServer&) = delete;

 private:
  int servers_ = 0;  // number of servers that this thread knew
};

}  // namespace longhaul
