// ReplayArena: one block of memory in which the tensors of a thread's training steps lie at addresses that
// were planned ahead. The first step is logged; plan/memory/addresses/step_addresses.h chooses addresses;
// later steps are replayed: the same request in the same order gets its address.
//
//   ReplayArena arena(*tensor_heap());
//   { const ReplayArena::Scope step(arena); … }   // this thread's requests are logged
//   arena.set_plan(plan_of(arena.take_log()));
//   { const ReplayArena::Scope step(arena); … }   // and now served
//
// A request that the plan does not have (other lengths of documents, other rows of experts), and one whose
// bytes are still in use by a tensor that lives longer than planned, goes to the heap, and is counted. So no
// plan, however wrong, lets two tensors share bytes. Requests of less than kLeast come from the heap's slabs
// as ever, and so does what outlives the step.
//
// Each thread that runs passes has its own. Tensors may outlive the arena, and any thread may free them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/block_pool.h"

namespace longhaul {

class CachingHeap;
CachingHeap* tensor_heap();  // of CPU tensors; null: install_cpu_allocator() has not been called

// MemoryLog: what one step asked for, in order. Times count requests and frees.
struct MemoryLog {
  struct Request {
    int64_t bytes = 0, begin = 0;
    int64_t end = 0;  // 0: not freed while the step went on
  };
  std::vector<Request> requests;
  std::vector<int64_t> cuts;  // times at which layers begin and end
  int64_t now = 0;
};

// Addresses of requests in the order of a log.
struct ArenaPlan {
  struct Place {
    int64_t bytes = 0;     // as they are asked for
    int64_t address = -1;  // −1: from the heap, because it outlives the step
  };
  std::vector<Place> places;
  std::vector<int64_t> cuts;  // how many requests stand before each
  int64_t bytes = 0;          // of the block
};

class ReplayArena {
 public:
  static constexpr size_t kLeast = 16 << 10;
  // Room that a request takes in the block: with its header and the guard of the test mode.
  static int64_t room_of(int64_t bytes);
  // Whether a request of so many bytes can begin there in a block of that size.
  static bool is_place(int64_t address, int64_t bytes, int64_t block_bytes);

  explicit ReplayArena(CachingHeap& heap) : heap_(heap) {}
  ~ReplayArena();
  ReplayArena(const ReplayArena&) = delete;
  ReplayArena& operator=(const ReplayArena&) = delete;

  // Takes the block from the heap, and gives back the one before. False: there is no room for it; then
  // everything comes from the heap. Addresses outside of the block are a bug.
  bool set_plan(ArenaPlan plan);
  bool planned() const { return memory_ != nullptr; }
  void forget_plan();  // the next step is logged
  MemoryLog take_log() { return std::move(log_); }

  // What the thread asks for while it lives.
  class Scope {
   public:
    explicit Scope(ReplayArena& arena);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ReplayArena* before_;
  };
  // A layer begins or ends: in a log the time is noted, and a replay goes on from there. Without a scope in
  // this thread nothing happens.
  static void cut();
  static bool in_use() { return current() != nullptr; }  // by this thread

  // The use in the last step, or in the one that goes on.
  struct Use {
    int64_t requests = 0, bytes = 0;             // of kLeast bytes or more
    int64_t unplanned = 0, unplanned_bytes = 0;  // of these, went to the heap: not in the plan, or collided
    int64_t collided = 0;                        // bytes of the place were still in use
  };
  Use use() const;

 private:
  friend class CachingHeap;  // which calls these with its lock held
  static ReplayArena* current();
  static ReplayArena* current_of(const CachingHeap& heap);
  Block* take(size_t bytes);              // null: the heap's turn
  void note(Block* block, size_t bytes);  // in the log
  void note_free(const Block* block) { log_.requests[block->log_index].end = ++log_.now; }
  const ArenaPlan::Place* find(int64_t bytes);  // the next that is as large; null: the plan has none
  void begin();
  void end();
  void let_go();  // of the block

  CachingHeap& heap_;
  ArenaPlan plan_;
  PlannedMemory* memory_ = nullptr;  // the heap's; null: no plan
  size_t next_ = 0, next_cut_ = 0;   // in the plan
  uint64_t log_number_ = 0;          // 0: nothing is logged
  MemoryLog log_;
  Use use_;
};

}  // namespace longhaul
