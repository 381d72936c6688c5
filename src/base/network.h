// What programs that connect to each other must know of this machine: a port that is free, and the address under which another machine
// reaches it. Nothing is sent to find out.
#pragma once

#include <cstdint>
#include <string>

namespace longhaul {

uint16_t free_port();  // of this machine, for the next who asks

// This machine's address on the way to the host, as its routes have it. Its own name would not do: many a /etc/hosts has that lead to the
// loopback. kCommunication where there is no way.
std::string own_address_towards(const std::string& host);

}  // namespace longhaul
