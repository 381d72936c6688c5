// SharedWire: messages between processes of one machine through shared memory. It is a part of Wire and
// keeps its promises: between two ranks, the n-th message sent with a tag is the n-th received with it; a
// send is done once its receive is posted; posting never blocks. A loopback connection would cost two
// copies by the kernel and a Gloo thread that polls; here the processes themselves copy each byte twice.
//
// Each rank has an inbox with one lane from every other rank (shared_lane.h). Short messages are sent at
// once and wait in the receiver's memory; for a longer message only the announcement is sent, and the bytes
// follow when the receive is posted. One thread for each rank moves bytes; it sleeps until another process
// wakes it, and checks ten times a second whether the other processes are alive.
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
  // Opens the inboxes of the other ranks. Returns for each rank whether its inbox can be reached by its
  // address; this rank's own is false.
  std::vector<bool> open(const std::vector<std::string>& addresses);
  // Call it before the first message. `with`: the ranks that reach each other's memory.
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
    bool dropped = false;  // its bytes are discarded: its memory has gone, or has another size
    uint64_t id = 0;
    State state = State::kGoing;
    bool stopped = false;
    std::string reason;  // why it is broken
    std::condition_variable changed;
  };
  class Posted;
  using Shared = std::shared_ptr<Message>;
  struct Arrived {  // a message that arrived before its receive was posted
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
    std::map<uint64_t, Shared> asking;  // by id: announced, not yet granted
    std::deque<Shared> granted;         // granted messages whose bytes are to be put
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
  Worker mover_{"shared wire"};  // the last member, because it must be destroyed first
};

}  // namespace longhaul::comm
