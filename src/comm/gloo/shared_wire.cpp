#include "comm/gloo/shared_wire.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "comm/gloo/wire.h"

namespace longhaul::comm {
namespace {

constexpr size_t kShort = 4096;                       // bytes of a message that goes before it is asked for
constexpr size_t kPiece = size_t{128} << 10;          // of a longer one that go at once
constexpr std::chrono::milliseconds kLookAfter{100};  // others' lives

// At the beginning of each inbox.
struct Bell {
  alignas(64) std::atomic<uint32_t> rings;
  alignas(64) std::atomic<uint32_t> asleep;
};

size_t capacity_for(int64_t size) {
  return std::clamp(std::bit_floor((size_t{16} << 20) / static_cast<size_t>(size)), size_t{64} << 10,
                    size_t{1} << 20);
}
size_t inbox_bytes(int64_t size) {
  return sizeof(Bell) + static_cast<size_t>(size) * SharedLane::bytes(capacity_for(size));
}
std::byte* lane_of(const HandedMemory& inbox, int64_t from, size_t capacity) {
  return inbox.data() + sizeof(Bell) + static_cast<size_t>(from) * SharedLane::bytes(capacity);
}
Bell& bell_of(const HandedMemory& inbox) { return *reinterpret_cast<Bell*>(inbox.data()); }

}  // namespace

// What was posted, to whoever posted it.
class SharedWire::Posted final : public Transmission {
 public:
  Posted(SharedWire& wire, Shared message) : wire_(wire), message_(std::move(message)) {}
  ~Posted() override { wire_.give_up(message_); }

  bool wait() override {
    std::unique_lock lock(wire_.mutex_);
    message_->changed.wait(lock, [&] { return message_->state != State::kGoing || message_->stopped; });
    if (message_->state == State::kBroken) throw std::runtime_error(message_->reason);
    return message_->state == State::kDone;
  }

  void stop() override {
    const std::lock_guard lock(wire_.mutex_);
    message_->stopped = true;
    message_->changed.notify_all();
  }

 private:
  SharedWire& wire_;
  Shared message_;
};

SharedWire::SharedWire(int64_t rank, int64_t size)
    : rank_(rank),
      capacity_(capacity_for(size)),
      inbox_(HandedMemory::make(inbox_bytes(size))),
      peers_(static_cast<size_t>(size)) {}

SharedWire::~SharedWire() {
  {
    const std::lock_guard lock(mutex_);
    progress();  // grants that others wait for
  }
  ending_ = true;
  bell_of(inbox_).rings.fetch_add(1);
  wake_all(bell_of(inbox_).rings);
  mover_.wait();
}

std::vector<bool> SharedWire::open(const std::vector<std::string>& addresses) {
  std::vector<bool> reached(peers_.size(), false);
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (static_cast<int64_t>(i) == rank_) continue;
    auto inbox = HandedMemory::open(addresses[i], inbox_bytes(static_cast<int64_t>(peers_.size())));
    reached[i] = inbox.has_value();
    if (inbox) peers_[i].inbox.emplace(std::move(*inbox));
  }
  return reached;
}

void SharedWire::start(const std::vector<bool>& with) {
  bool any = false;
  for (size_t i = 0; i < peers_.size(); ++i) {
    Peer& peer = peers_[i];
    if (!with[i] || !peer.inbox) {
      peer.inbox.reset();
      continue;
    }
    peer.out.emplace(lane_of(*peer.inbox, rank_, capacity_), capacity_);
    peer.in.emplace(lane_of(inbox_, static_cast<int64_t>(i), capacity_), capacity_);
    peer.connected = any = true;
  }
  if (any) mover_.post([this] { run(); });
}

void SharedWire::ring(const Peer& peer) const {
  Bell& bell = bell_of(*peer.inbox);
  bell.rings.fetch_add(1);
  if (bell.asleep.load() != 0) wake_all(bell.rings);
}

void SharedWire::run() {
  Bell& bell = bell_of(inbox_);
  auto look = std::chrono::steady_clock::now() + kLookAfter;
  while (!ending_) {
    const uint32_t seen = bell.rings.load();
    bool moved = false;
    {
      const std::lock_guard lock(mutex_);
      if (std::chrono::steady_clock::now() >= look)
        look_for_the_dead(), look = std::chrono::steady_clock::now() + kLookAfter;
      moved = progress();
    }
    if (moved) continue;
    bell.asleep.store(1);
    if (bell.rings.load() == seen && !ending_) sleep_while(bell.rings, seen, kLookAfter);
    bell.asleep.store(0);
  }
}

bool SharedWire::progress() {
  bool moved = false;
  for (Peer& peer : peers_) {
    if (!peer.connected || peer.gone) continue;
    const bool took = take_in(peer), put = put_out(peer);
    if (put || (took && peer.in->room_was_wanted())) ring(peer);
    moved = moved || took || put;
  }
  return moved;
}

bool SharedWire::take_in(Peer& peer) {
  bool any = false;
  // No more at once than a lane holds: others have their turn too.
  size_t taken = 0;
  for (LaneRecord record; taken < capacity_ && peer.in->peek(record); any = true) {
    taken += sizeof record + record.count;
    take_one(peer, record);
  }
  return any;
}

void SharedWire::take_one(Peer& peer, const LaneRecord& record) {
  switch (record.kind) {
    case LaneRecord::kWhole:
    case LaneRecord::kRequest: {
      std::deque<Shared>& receives = peer.wanted[record.tag];
      Arrived arrived{record, std::vector<std::byte>(record.count)};
      peer.in->take(record, arrived.bytes.data());
      if (receives.empty()) {
        peer.arrived[record.tag].push_back(std::move(arrived));
      } else {
        const Shared receive = std::move(receives.front());
        receives.pop_front();
        matched(peer, receive, record, arrived.bytes.data());
      }
      return;
    }
    case LaneRecord::kGrant: {
      peer.in->take(record, nullptr);
      const auto found = peer.asking.find(record.id);
      if (found == peer.asking.end()) return;
      const Shared message = found->second;
      peer.asking.erase(found);
      if (message->count <= kShort)
        finish(*message, State::kDone);
      else
        peer.granted.push_back(message);
      return;
    }
    case LaneRecord::kBytes: {
      const auto found = peer.coming.find(record.id);
      const Shared message = found == peer.coming.end() ? nullptr : found->second;
      peer.in->take(record, message && !message->dropped ? message->bytes + message->moved : nullptr);
      if (!message) return;
      message->moved += record.count;
      if (message->moved < message->count) return;
      peer.coming.erase(found);
      finish(*message, State::kDone);
      return;
    }
  }
  LONGHAUL_ASSERT(false, "record of kind {} from another process", record.kind);
}

void SharedWire::matched(Peer& peer, const Shared& receive, const LaneRecord& record,
                         const std::byte* whole) {
  peer.grants.push_back({.kind = LaneRecord::kGrant, .id = record.id});
  if (record.total != receive->count) {
    finish(*receive, State::kBroken,
           fmt::format("a message of {} bytes came where {} were expected", record.total, receive->count));
    receive->dropped = true;
  }
  if (record.kind == LaneRecord::kRequest) {
    receive->count = record.total;  // bytes that come go nowhere if they do not fit
    peer.coming[record.id] = receive;
    return;
  }
  if (receive->dropped) return;
  if (record.count > 0) std::memcpy(receive->bytes, whole, record.count);
  finish(*receive, State::kDone);
}

bool SharedWire::put_out(Peer& peer) {
  bool any = false;
  const auto put = [&](const LaneRecord& record, const std::byte* carried) {
    if (!peer.out->put(record, carried)) {
      peer.out->want_room();
      if (!peer.out->put(record, carried)) return false;  // room may have come before it was wanted
    }
    return any = true;
  };
  for (; !peer.grants.empty(); peer.grants.pop_front()) {
    if (!put(peer.grants.front(), nullptr)) return any;
  }
  for (; !peer.announced.empty(); peer.announced.pop_front()) {
    const Shared& message = peer.announced.front();
    const bool whole = message->count <= kShort;
    const LaneRecord record{.kind = whole ? LaneRecord::kWhole : LaneRecord::kRequest,
                            .count = whole ? static_cast<uint32_t>(message->count) : 0,
                            .tag = message->tag,
                            .id = message->id,
                            .total = message->count};
    if (!put(record, message->bytes)) return any;
    peer.asking[message->id] = message;
  }
  while (!peer.granted.empty()) {
    Message& message = *peer.granted.front();
    if (!message.dropped) {
      const size_t piece = std::min({kPiece, capacity_ / 4, message.count - message.moved});
      if (!put({.kind = LaneRecord::kBytes, .count = static_cast<uint32_t>(piece), .id = message.id},
               message.bytes + message.moved))
        return any;
      message.moved += piece;
      if (message.moved < message.count) continue;
      finish(message, State::kDone);
    }
    peer.granted.pop_front();
  }
  return any;
}

void SharedWire::finish(Message& message, State state, const std::string& reason) {
  if (message.state != State::kGoing) return;  // broken before its last bytes came
  message.state = state, message.reason = reason;
  message.changed.notify_all();
}

// What one that has gone left in its lane counts still.
void SharedWire::look_for_the_dead() {
  for (Peer& peer : peers_) {
    if (!peer.connected || peer.gone || peer.inbox->maker_lives()) continue;
    while (take_in(peer)) {
    }
    break_with(peer);
  }
}

void SharedWire::break_with(Peer& peer) {
  peer.gone = true;
  const auto broken = [&](const Shared& message) {
    finish(*message, State::kBroken, "its process has ended");
  };
  std::ranges::for_each(peer.announced, broken);
  std::ranges::for_each(peer.granted, broken);
  for (const auto& [id, message] : peer.asking) broken(message);
  for (const auto& [id, message] : peer.coming) broken(message);
  for (const auto& [tag, messages] : peer.wanted) std::ranges::for_each(messages, broken);
  peer.announced.clear(), peer.granted.clear(), peer.asking.clear(), peer.coming.clear(), peer.wanted.clear();
}

// Nobody touches its memory from here on. What was announced of it stays so: others have matched it.
void SharedWire::give_up(const Shared& message) {
  const std::lock_guard lock(mutex_);
  message->dropped = true;
  Peer& peer = peers_[static_cast<size_t>(message->peer)];
  if (message->sends)
    std::erase(peer.announced, message);
  else if (const auto wanted = peer.wanted.find(message->tag); wanted != peer.wanted.end())
    std::erase(wanted->second, message);
}

std::unique_ptr<Transmission> SharedWire::posted(Shared message) {
  Peer& peer = peers_[static_cast<size_t>(message->peer)];
  auto result = std::make_unique<Posted>(*this, message);
  const std::lock_guard lock(mutex_);
  if (message->sends) {
    message->id = ++peer.last_id;
    if (!peer.gone) peer.announced.push_back(message);
  } else if (auto& early = peer.arrived[message->tag]; !early.empty()) {
    const Arrived first = std::move(early.front());
    early.pop_front();
    matched(peer, message, first.record, first.bytes.data());
  } else if (!peer.gone) {
    peer.wanted[message->tag].push_back(message);
  }
  if (peer.gone) {
    finish(*message, State::kBroken, "its process has ended");
    return result;
  }
  if (put_out(peer)) ring(peer);
  return result;
}

std::unique_ptr<Transmission> SharedWire::send(int64_t peer, int64_t tag, const void* bytes, size_t count) {
  auto message = std::make_shared<Message>();
  message->peer = peer, message->tag = tag, message->sends = true, message->count = count;
  message->bytes = static_cast<std::byte*>(const_cast<void*>(bytes));
  return posted(std::move(message));
}

std::unique_ptr<Transmission> SharedWire::receive(int64_t peer, int64_t tag, void* bytes, size_t count) {
  auto message = std::make_shared<Message>();
  message->peer = peer, message->tag = tag, message->sends = false, message->count = count;
  message->bytes = static_cast<std::byte*>(bytes);
  return posted(std::move(message));
}

}  // namespace longhaul::comm
