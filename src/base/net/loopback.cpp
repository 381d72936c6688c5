#include "base/net/loopback.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <span>
#include <system_error>
#include <vector>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/net/network.h"
#include "base/statistics.h"
#include "base/threads/worker.h"

namespace longhaul {
namespace {

[[noreturn]] void no_loopback(const std::string& doing) {
  throw Error({.code = ExitCode::kCommunication,
               .what = "the loopback does not work",
               .expected = "a connection of this machine to itself",
               .found = doing + ": " + std::generic_category().message(errno),
               .hint = "ip link show lo; ulimit -n; a firewall's rules for 127.0.0.1"});
}

struct LoopbackSocket {
  int descriptor = -1;
  explicit LoopbackSocket(int value) : descriptor(value) {}
  LoopbackSocket(const LoopbackSocket&) = delete;
  LoopbackSocket& operator=(const LoopbackSocket&) = delete;
  ~LoopbackSocket() {
    if (descriptor >= 0) ::close(descriptor);
  }
  void patience() const {
    const timeval limit{.tv_sec = 10, .tv_usec = 0};
    constexpr int kYes = 1;
    ::setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    ::setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &kYes, sizeof(kYes));
  }
  void send_all(std::span<const std::byte> data) const {
    while (!data.empty()) {
      const ssize_t sent = ::send(descriptor, data.data(), data.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) no_loopback("sending");
      data = data.subspan(static_cast<size_t>(sent));
    }
  }
  void receive_all(std::span<std::byte> data) const {
    while (!data.empty()) {
      const ssize_t came = ::recv(descriptor, data.data(), data.size(), 0);
      if (came < 0 && errno == EINTR) continue;
      if (came == 0) errno = ECONNRESET;
      if (came <= 0) no_loopback("receiving");
      data = data.subspan(static_cast<size_t>(came));
    }
  }
};

constexpr int kRoundTrips = 51;

void answer(int listening, int64_t blocks, size_t block_bytes, uint32_t& checksum) {
  LoopbackSocket socket(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC));
  if (socket.descriptor < 0) no_loopback("accepting");
  socket.patience();
  std::array<std::byte, 1> one{};
  for (int i = 0; i < kRoundTrips; ++i) {
    socket.receive_all(one);
    socket.send_all(one);
  }
  std::vector<std::byte> block(block_bytes);
  for (int64_t i = 0; i < blocks; ++i) {
    socket.receive_all(block);
    checksum = crc32c(block, checksum);
  }
  socket.send_all(one);
}

double median_round_trip_ms(const LoopbackSocket& socket) {
  std::vector<double> times;
  std::array<std::byte, 1> one{};
  for (int i = 0; i < kRoundTrips; ++i) {
    const Stopwatch watch;
    socket.send_all(one);
    socket.receive_all(one);
    times.push_back(watch.milliseconds());
  }
  return median(std::move(times));
}

}  // namespace

LoopbackRate measured_loopback(int64_t bytes) {
  std::vector<std::byte> block(1 << 20);
  for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::byte>((i * 2654435761u) >> 11);
  const int64_t blocks = std::max<int64_t>(1, bytes / static_cast<int64_t>(block.size()));
  const Listener listener = listen_on(0);
  const LoopbackSocket listening(listener.descriptor);
  const timeval limit{.tv_sec = 10, .tv_usec = 0};
  ::setsockopt(listening.descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));  // of accept
  uint32_t arrived = 0, sent = 0;
  Worker worker("loopback");
  worker.post([&] { answer(listening.descriptor, blocks, block.size(), arrived); });

  LoopbackRate rate{.bytes = blocks * static_cast<int64_t>(block.size())};
  const LoopbackSocket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(listener.port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (socket.descriptor < 0) no_loopback("a socket");
  socket.patience();
  if (::connect(socket.descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    no_loopback("connecting");
  rate.round_trip_ms = median_round_trip_ms(socket);
  for (int64_t i = 0; i < blocks; ++i) sent = crc32c(block, sent);
  const Stopwatch watch;
  for (int64_t i = 0; i < blocks; ++i) socket.send_all(block);
  std::array<std::byte, 1> done{};
  socket.receive_all(done);
  rate.bytes_per_second = static_cast<double>(rate.bytes) / watch.seconds();
  worker.wait();
  rate.intact = arrived == sent;
  return rate;
}

}  // namespace longhaul
