// The emulation's own state, shared by emulation.cpp (scheduler, warp-wide instructions, copies) and emulation_group.cpp (barriers in
// shared memory, named barriers, products of warp groups). For these two alone.
#pragma once

#include <ucontext.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/emulation.h"
#include "kernels/cuda/fragments.h"

#if defined(__x86_64__)
extern "C" void longhaul_switch_stack(void** save, void* to);
#endif

namespace longhaul::kernels::cuda::emulation {

constexpr size_t kStackBytes = 128 * 1024;
constexpr size_t kGroupLanes = 128;

// A context that can be left and entered again.
class Fibre {
 public:
  void prepare(unsigned char* stack, void (*entry)()) {
#if defined(__x86_64__)
    auto* top = reinterpret_cast<void**>(stack + kStackBytes);
    *--top = nullptr;  // where `entry` would return to
    *--top = reinterpret_cast<void*>(entry);
    for (int i = 0; i < 6; ++i) *--top = nullptr;
    stack_pointer_ = top;
#else
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack;
    context_.uc_stack.ss_size = kStackBytes;
    context_.uc_link = nullptr;
    makecontext(&context_, entry, 0);
#endif
  }
  void switch_to(Fibre& other) {
#if defined(__x86_64__)
    longhaul_switch_stack(&stack_pointer_, other.stack_pointer_);
#else
    swapcontext(&context_, &other.context_);
#endif
  }

 private:
#if defined(__x86_64__)
  void* stack_pointer_ = nullptr;
#else
  ucontext_t context_;
#endif
};

struct Copy {
  void* shared;
  const void* global;
  int bytes;
};

using Operation = void (*)(void* const operands[]);  // of all lanes of a warp or of a warp group

enum class State { kReady, kAtWarp, kAtGroup, kAtBarrier, kAtNamedBarrier, kAwaiting, kGivingWay, kDone };

struct Lane {
  Fibre fibre;
  State state = State::kReady;
  Operation operation = nullptr;
  void* operands = nullptr;
  std::vector<Copy> open_copies;
  std::deque<std::vector<Copy>> groups;
  std::vector<size_t> unfenced;           // units of shared memory that its copies wrote since its last fence.proxy.async
  int named_barrier = 0;                  // where it is kAtNamedBarrier
  const unsigned char* phased = nullptr;  // the barrier in shared memory where it is kAwaiting,
  uint32_t parity = 0;                    // and the parity of the phase that must be over
};

// A wgmma that has been issued. Registers are those of all 128 lanes.
struct Product {
  int columns = 0;  // n of m64nNk16
  bool add = false, a_in_registers = false, b_n_major = false;
  uint64_t a = 0, b = 0;  // descriptors
  std::vector<const uint32_t*> a_registers;
  float* accumulator = nullptr;  // the first lane's registers: the key of WarpGroup::accumulators
};
struct Accumulator {  // registers that products under way write
  int products = 0;
  std::vector<float*> registers;
  std::vector<float> values;  // [lanes, columns / 2]
};
struct WarpGroup {
  bool fenced = false;
  std::vector<Product> open;
  std::deque<std::vector<Product>> batches;
  std::map<float*, Accumulator> accumulators;
};
struct NamedBarrier {
  int arrived = 0, expected = 0;
};

struct Block {
  const char* name = "";
  const std::function<void()>* body = nullptr;
  Fibre scheduler;
  std::vector<Lane> lanes;
  std::vector<int> at_warp, at_group;  // lanes of each warp, of each warp group, waiting in one operation
  std::vector<WarpGroup> groups;
  std::map<int, NamedBarrier> named_barriers;
  std::vector<int> unfenced_by;  // for each 16 bytes of shared memory the lane of Lane::unfenced, or −1
  int at_barrier = 0, done = 0;
  size_t current = 0;
  std::unique_ptr<unsigned char[]> stacks;
  unsigned char* shared = nullptr;  // between two guards
  size_t shared_bytes = 0;
  std::string failure;
};

extern thread_local Block* block;
extern thread_local Order chosen_order;

[[noreturn]] void fail(const std::string& what);
void leave();  // to the scheduler, until the lane is kReady again
// All lanes of the warp, or of the warp group, bring operands; the last one does the work for all.
void meet(Operation operation, void* operands);
void meet_group(Operation operation, void* operands);
bool in_shared(const void* at, size_t bytes);
void reset_groups();                   // before a block begins
void check_groups();                   // after it has ended: nothing may be under way
bool phase_is_over(const Lane& lane);  // of a lane that is kAwaiting

}  // namespace longhaul::kernels::cuda::emulation
