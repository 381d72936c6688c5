// TcpProxy: passes connections on to a server, for drills and tests of what networks do to them. A connection
// that falls silent is half open: both ends stay connected, nothing arrives any more, and nobody is told.
// Later connections of the same peer go through.
//
//   TcpProxy proxy({"10.0.0.1", 0}, {"10.0.0.1", 29400});      // a thread of its own; proxy.port()
//   proxy.silence("10.0.0.12");                                // connections that this peer has now
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/net/socket.h"

namespace longhaul {

class TcpProxy {
 public:
  TcpProxy(const Endpoint& here, const Endpoint& server);  // port 0: any that is free
  ~TcpProxy();                                             // its connections are closed
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  uint16_t port() const;
  // → how many connections of the peer, an address, fell silent by it.
  int64_t silence(const std::string& peer);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace longhaul
