// Socket: one end of a TCP connection, or what listens for them; nothing here waits. Messages beyond the network's own order, and who may
// connect, are for those above (src/control).
//
//   Socket listening = Socket::listen({"127.0.0.1", 0});
//   Socket client = Socket::connect({"127.0.0.1", listening.port()});     // under way: writable when it is there, or has failed
//   std::optional<Socket> server = listening.accept();
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace longhaul {

struct Endpoint {
  std::string host;  // a name or an address; IPv6 in [ ]
  uint16_t port = 0;
  std::string text() const;
};
// "HOST:PORT"; Error 64 that names `where` for anything else.
Endpoint parse_endpoint(std::string_view text, const std::string& where);

class Socket {
 public:
  Socket() = default;
  // On that address of this machine alone; port 0 takes any that is free. Error 69 where the port is taken or the address is not ours.
  static Socket listen(const Endpoint& endpoint);
  // Error 69 where the name has no address. Whether anybody is there, problem() tells once it can be written to.
  static Socket connect(const Endpoint& endpoint);
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;

  // nullopt: nobody waits, or, as it says, no more files may be open: whoever waits goes on waiting.
  std::optional<Socket> accept(bool* out_of_descriptors = nullptr) const;
  uint16_t port() const;            // its own
  std::string own_address() const;  // as numbers: of the connection's end here
  std::string peer() const;         // "10.0.0.7:4711"
  int problem() const;              // errno of a connection that failed; 0: none

  enum class Result { kSome, kNothing /* now */, kEnd };  // kEnd: the other side closed, or the connection is broken
  Result read(std::string& onto, size_t most_bytes = 65536);
  Result write(std::string_view bytes, size_t& written);

  int descriptor() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }
  void close();

 private:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace longhaul
