// Channel: an authenticated connection of the control plane, driven by an EventLoop. Messages arrive whole,
// in order, once each, and only from holders of the job's secret; anything else closes the channel with a
// reason. A peer that is silent, sends too fast or does not read what it is sent is disconnected, so that a
// stranger or a hanging node never delays the others.
//
//   auto channel = Channel::make(loop, std::move(socket), Handshake(…), {.opened = …, .message = …,
//       .closed = …});
//   channel->send(R"({"beat":…})");
//
// Only the loop's thread may use it. Handlers may release the channel.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/net/event_loop.h"
#include "base/net/socket.h"
#include "control/wire/authentication.h"
#include "control/wire/frame.h"

namespace longhaul::control {

struct ChannelLimits {
  double handshake_s = 5;               // until the connection is established
  double silence_s = 15;                // afterwards, between two messages of the other side
  size_t unsent_bytes = 8 << 20;        // limit of bytes that the other side has not received yet
  int64_t messages_per_second = 10000;  // limit for the other side
};

class Channel : public std::enable_shared_from_this<Channel> {
 public:
  struct Closing {
    std::string reason;
    std::optional<Handshake::Refusal> refused;  // by either side
    bool was_open = false;
  };
  struct Handlers {
    std::function<void(const Identity& peer)> opened;
    std::function<void(std::string_view message)> message;
    std::function<void(const Closing&)> closed;  // called once; not after close()
  };
  static std::shared_ptr<Channel> make(EventLoop& loop, Socket socket, Handshake handshake, Handlers handlers,
                                       ChannelLimits limits = {});
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  void send(std::string_view message);  // lost if the channel is not open yet or was closed
  // On both sides, between the same two messages.
  void renew_sending(std::string_view label) { sending_.renew(label); }
  void renew_receiving(std::string_view label) { receiving_.renew(label); }
  void close();  // unsent bytes that the system accepts at once are still sent
  bool is_open() const { return open_; }
  const Identity& peer() const { return handshake_.peer(); }
  // Key of the peer that has proved to be the driver.
  const std::string& driver_key() const { return handshake_.driver_key(); }
  const std::string& peer_address() const { return address_; }
  std::string own_address() const { return socket_.own_address(); }

 private:
  Channel(EventLoop& loop, Socket socket, Handshake handshake, Handlers handlers, ChannelLimits limits);
  void begin();
  void on_ready(Ready ready);
  void read();
  void take(const std::string& frame);
  void take_handshake(const std::string& frame);
  void push(std::string_view payload);
  void write();
  double look_every_s() const { return limits_.handshake_s / 4; }
  void look_at_clock();
  void fail(std::string reason, std::optional<Handshake::Refusal> refused = std::nullopt);
  void release();

  EventLoop& loop_;
  Socket socket_;
  std::string address_;
  Handshake handshake_;
  Handlers handlers_;
  ChannelLimits limits_;
  FrameReader reader_{kHandshakeLimit};
  Seal sending_, receiving_;
  std::string unsent_;
  bool connected_ = false, open_ = false;
  // messages_: received since second_ns_.
  int64_t heard_ns_ = 0, looked_ns_ = 0, second_ns_ = 0, messages_ = 0;
  uint64_t timer_ = 0;
};

}  // namespace longhaul::control
