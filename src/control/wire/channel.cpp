#include "control/wire/channel.h"

#include <system_error>
#include <utility>

#include "base/clock.h"

namespace longhaul::control {

std::shared_ptr<Channel> Channel::make(EventLoop& loop, Socket socket, Handshake handshake, Handlers handlers,
                                       ChannelLimits limits) {
  std::shared_ptr<Channel> channel(
      new Channel(loop, std::move(socket), std::move(handshake), std::move(handlers), limits));
  channel->begin();
  return channel;
}

Channel::Channel(EventLoop& loop, Socket socket, Handshake handshake, Handlers handlers, ChannelLimits limits)
    : loop_(loop),
      socket_(std::move(socket)),
      handshake_(std::move(handshake)),
      handlers_(std::move(handlers)),
      limits_(limits),
      heard_ns_(monotonic_ns()),
      looked_ns_(heard_ns_),
      second_ns_(heard_ns_) {}

Channel::~Channel() { release(); }

void Channel::begin() {
  const std::weak_ptr<Channel> self = weak_from_this();
  loop_.watch(socket_.descriptor(), {.reads = true, .writes = true}, [self](Ready ready) {
    if (const auto channel = self.lock()) channel->on_ready(ready);
  });
  timer_ = loop_.every(look_every_s(), [self] {
    if (const auto channel = self.lock()) channel->look_at_clock();
  });
}

void Channel::release() {
  if (!socket_) return;
  loop_.forget(socket_.descriptor());
  loop_.cancel(timer_);
  socket_.close();
  open_ = false;
}

void Channel::close() {
  if (connected_ && !unsent_.empty()) write();
  handlers_ = {};
  release();
}

void Channel::fail(std::string reason, std::optional<Handshake::Refusal> refused) {
  const bool was_open = !receiving_.empty();
  release();
  // This comes last: the handler may release this channel, which on_ready still holds.
  if (const auto closed = std::exchange(handlers_, {}).closed)
    closed({std::move(reason), std::move(refused), was_open});
}

void Channel::on_ready(Ready ready) {
  if (!connected_) {
    if (const int problem = socket_.problem(); problem != 0)
      return fail(std::generic_category().message(problem));
    if (!ready.writes) return;
    connected_ = true;
    address_ = socket_.peer();
    if (const std::string opening = handshake_.opening(); !opening.empty()) push(opening);
  }
  if (ready.writes && socket_) write();
  if (ready.reads && socket_) read();
}

void Channel::read() {
  std::string& input = reader_.input();
  const Socket::Result result = socket_.read(input);
  if (result == Socket::Result::kNothing) return;
  while (socket_) {
    std::optional<std::string> frame;
    try {
      frame = reader_.next();
    } catch (const Error& error) {
      return fail(error.fields().what + ": " + error.fields().found);
    }
    if (!frame) break;
    heard_ns_ = monotonic_ns();
    take(*frame);
  }
  if (socket_ && result == Socket::Result::kEnd) fail("the other side closed the connection");
}

void Channel::take(const std::string& frame) {
  if (!open_) return take_handshake(frame);
  if (heard_ns_ - second_ns_ > 1'000'000'000) {
    second_ns_ = heard_ns_;
    messages_ = 0;
  }
  if (++messages_ > limits_.messages_per_second) return fail("too many messages in a second");
  const std::optional<std::string> message = receiving_.open(frame);
  if (!message) return fail("a message that was changed, repeated or left out on the way");
  if (const auto handler = handlers_.message) handler(*message);
}

void Channel::take_handshake(const std::string& frame) {
  Handshake::Step step = handshake_.on(frame);
  if (!step.reply.empty()) push(step.reply);
  if (step.refused) {
    if (socket_) write();
    std::string reason = step.refused->reason;
    return fail(std::move(reason), std::move(step.refused));
  }
  if (!step.established || !socket_) return;
  open_ = true;
  sending_ = handshake_.sending();
  receiving_ = handshake_.receiving();
  reader_.set_limit(kFrameLimit);
  if (const auto handler = handlers_.opened) handler(handshake_.peer());
}

void Channel::send(std::string_view message) {
  if (open_) push(sending_.close(message));
}

void Channel::push(std::string_view payload) {
  if (!socket_) return;
  unsent_ += to_frame(payload);
  if (unsent_.size() > limits_.unsent_bytes) {
    // Not immediately, because the sender may be iterating over a list of channels.
    unsent_.clear();
    open_ = false;
    loop_.forget(socket_.descriptor());
    loop_.after(0, [self = weak_from_this()] {
      if (const auto channel = self.lock()) channel->fail("the other side does not read what it is sent");
    });
    return;
  }
  loop_.change(socket_.descriptor(), {.reads = true, .writes = true});
}

void Channel::write() {
  while (!unsent_.empty()) {
    size_t written = 0;
    const Socket::Result result = socket_.write(unsent_, written);
    if (result == Socket::Result::kNothing) return;
    if (result == Socket::Result::kEnd) {
      unsent_.clear();  // messages that the other side sent before it closed are still read
      break;
    }
    unsent_.erase(0, written);
  }
  loop_.change(socket_.descriptor(), {.reads = true, .writes = false});
}

// While this process stood still nothing was read: messages of that time are still to be read, so it does not
// count as silence.
void Channel::look_at_clock() {
  const int64_t now_ns = monotonic_ns(), since_ns = now_ns - std::exchange(looked_ns_, now_ns);
  if (const double stood_s = static_cast<double>(since_ns) * 1e-9 - 2 * look_every_s(); stood_s > 0)
    heard_ns_ += since_ns;
  const double silent_s = static_cast<double>(now_ns - heard_ns_) * 1e-9;
  if (!open_ && silent_s > limits_.handshake_s)
    return fail(connected_ ? "no greeting came" : "nobody answers at that address");
  if (open_ && silent_s > limits_.silence_s) fail(fmt::format("nothing was heard for {:.0f} s", silent_s));
}

}  // namespace longhaul::control
