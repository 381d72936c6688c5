// SharedWire: messages between processes of one machine through memory that they share, for Wire, whose promises it keeps: of two ranks' messages with one
// tag the n-th sent is the n-th received, a message is sent once its receive is posted, nobody who posts waits. A connection of the loopback costs two
// copies by the kernel and a thread of Gloo's that asks again and again; here each byte is copied twice by the processes themselves.
//
// Each rank has an inbox with a lane from every other (shared_lane.h). Short messages go at once and wait in their receiver's memory; of longer ones only
// the announcement does, and the bytes follow when they have somewhere to go. One thread a rank moves bytes; it sleeps until somebody rings, and looks ten
// times a second whether others live.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/memory/handed_memory.h"
#include "base/threads/worker.h"
#include "comm/gloo/shared_lane.h"

namespace longhaul::comm {

class Transmission;

class SharedWire {
 public:
  SharedWire(int64_t rank, int64_t size);
  ~SharedWire();
  SharedWire(const SharedWire&) = delete;
  SharedWire& operator=(const SharedWire&) = delete;

  const std::string& address() const { return inbox_.address(); }
  // Whose inbox can be reached by its address; a rank a place, one's own left out.
  std::vector<bool> open(const std::vector<std::string>& addresses);
  // Before the first message: with those that see each other.
  void start(const std::vector<bool>& with);
  bool reaches(int64_t peer) const { return peers_[static_cast<size_t>(peer)].connected; }

  std::unique_ptr<Transmission> send(int64_t peer, int64_t tag, const void* bytes, size_t count);
  std::unique_ptr<Transmission> receive(int64_t peer, int64_t tag, void* bytes, size_t count);

 private:
  enum class State { kGoing, kDone, kBroken };
  struct Message {
    int64_t peer, tag;
    bool sends;
    std::byte* bytes;
    size_t count, moved = 0;
    bool dropped = false;  // its bytes go nowhere: its memory is no longer there, or of another size
    uint64_t id = 0;
    State state = State::kGoing;
    bool stopped = false;
    std::string reason;  // why it is broken
    std::condition_variable changed;
  };
  class Posted;
  using Shared = std::shared_ptr<Message>;
  struct Arrived {  // before its receive was posted
    LaneRecord record;
    std::vector<std::byte> bytes;
  };
  struct Peer {
    std::optional<HandedMemory> inbox;
    std::optional<SharedLane> out, in;
    bool connected = false, gone = false;
    uint64_t last_id = 0;
    std::deque<LaneRecord> grants;      // to be put
    std::deque<Shared> announced;       // to be put
    std::map<uint64_t, Shared> asking;  // by id: put, not granted
    std::deque<Shared> granted;         // whose bytes are to be put
    std::map<int64_t, std::deque<Shared>> wanted;
    std::map<int64_t, std::deque<Arrived>> arrived;
    std::map<uint64_t, Shared> coming;  // by the sender's id
  };

  void run();
  bool progress();  // with the lock held; whether anything moved
  bool take_in(Peer& peer);
  bool put_out(Peer& peer);
  void take_one(Peer& peer, const LaneRecord& record);
  void matched(Peer& peer, const Shared& receive, const LaneRecord& record, const std::byte* whole);
  void finish(Message& message, State state, const std::string& reason = "");
  void look_for_the_dead();
  void break_with(Peer& peer);
  void give_up(const Shared& message);
  void ring(const Peer& peer) const;
  std::unique_ptr<Transmission> posted(Shared message);

  int64_t rank_;
  size_t capacity_;
  HandedMemory inbox_;
  std::vector<Peer> peers_;
  std::mutex mutex_;
  std::atomic<bool> ending_{false};
  Worker mover_{"shared wire"};  // the last member: the first to go
};

}  // namespace longhaul::comm
