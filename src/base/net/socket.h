// Socket: one end of a TCP connection, or a listening socket; no function here waits. The order of messages
// and the permission to connect are handled in src/control.
//
//   Socket listening = Socket::listen({"127.0.0.1", 0});
//   // in progress: writable once it succeeds or fails
//   Socket client = Socket::connect({"127.0.0.1", listening.port()});
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
// Parses "HOST:PORT"; for any other text Error 64, which names `where`.
Endpoint parse_endpoint(std::string_view text, const std::string& where);

class Socket {
 public:
  Socket() = default;
  // Listens on that address of this machine only; port 0 takes any free one. Error 69 where the port is taken
  // or the address is not this machine's.
  static Socket listen(const Endpoint& endpoint);
  // Error 69 where the name has no address. Once the socket is writable, problem() tells whether the
  // connection succeeded.
  static Socket connect(const Endpoint& endpoint);
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;

  // nullopt: no connection waits, or (out_of_descriptors) no more files may be open, and connections go on
  // waiting.
  std::optional<Socket> accept(bool* out_of_descriptors = nullptr) const;
  uint16_t port() const;            // its own port
  std::string own_address() const;  // numeric address of this end of the connection
  std::string peer() const;         // "10.0.0.7:4711"
  int problem() const;              // errno of a connection that failed; 0: none

  // kEnd: the other side closed, or the connection is broken.
  enum class Result { kSome, kNothing /* now */, kEnd };
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
