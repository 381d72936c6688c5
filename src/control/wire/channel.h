// Channel: an authenticated connection of the control plane, driven by an EventLoop. Messages come out whole, in order, once each, from who
// has the job's secret; anything else closes it with a reason. Who is silent, sends too fast or does not read what it is sent is cut off:
// a stranger or a node that hangs never holds up the others.
//
//   auto channel = Channel::make(loop, std::move(socket), Handshake(…), {.opened = …, .message = …, .closed = …});
//   channel->send(R"({"beat":…})");
//
// Belongs to the loop's thread. Handlers may let go of the channel.
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
  double handshake_s = 5;               // until it is established
  double silence_s = 15;                // then between two messages of the other side
  size_t unsent_bytes = 8 << 20;        // that the other side has not taken
  int64_t messages_per_second = 10000;  // of the other side
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
    std::function<void(const Closing&)> closed;  // once; not when close() was called
  };
  static std::shared_ptr<Channel> make(EventLoop& loop, Socket socket, Handshake handshake, Handlers handlers, ChannelLimits limits = {});
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  void send(std::string_view message);                                   // before it is open or after it was closed: lost
  void renew_sending(std::string_view label) { sending_.renew(label); }  // both sides, between the same two messages
  void renew_receiving(std::string_view label) { receiving_.renew(label); }
  void close();  // what the system takes at once of what is unsent still goes out
  bool is_open() const { return open_; }
  const Identity& peer() const { return handshake_.peer(); }
  const std::string& driver_key() const { return handshake_.driver_key(); }  // of who was believed to be the driver
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
  int64_t heard_ns_ = 0, looked_ns_ = 0, second_ns_ = 0, messages_ = 0;  // messages: since second_ns_
  uint64_t timer_ = 0;
};

}  // namespace longhaul::control
