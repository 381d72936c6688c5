#include "cuda_emulation.h"

#include <ucontext.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/fragments.h"

thread_local EmulatedIndex threadIdx, blockIdx, blockDim, gridDim;

// A switch of stacks: ucontext's own saves the signal mask by a system call each time, so x86-64 has its own.
#if defined(__x86_64__)
extern "C" void longhaul_switch_stack(void** save, void* to);
asm(R"(
.text
.globl longhaul_switch_stack
.type longhaul_switch_stack, @function
longhaul_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size longhaul_switch_stack, .-longhaul_switch_stack
)");
#endif

namespace longhaul::kernels::cuda::emulation {
namespace {

constexpr size_t kStackBytes = 128 * 1024;
constexpr size_t kGuardBytes = 256;
constexpr unsigned char kPoison = 0xff;  // NaN as bf16 and as fp32
constexpr unsigned char kGuard = 0xa5;

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

using Operation = void (*)(void* const operands[kWarp]);

enum class State { kReady, kAtWarp, kAtBarrier, kDone };

struct Lane {
  Fibre fibre;
  State state = State::kReady;
  Operation operation = nullptr;
  void* operands = nullptr;
  std::vector<Copy> open_copies;
  std::deque<std::vector<Copy>> groups;
};

struct Block {
  const char* name = "";
  const std::function<void()>* body = nullptr;
  Fibre scheduler;
  std::vector<Lane> lanes;
  std::vector<int> at_warp;  // lanes of each warp waiting in one operation
  int at_barrier = 0, done = 0;
  size_t current = 0;
  std::unique_ptr<unsigned char[]> stacks;
  unsigned char* shared = nullptr;  // between two guards
  size_t shared_bytes = 0;
  std::string failure;
};

thread_local Block* block = nullptr;
thread_local Order chosen_order = Order::kAscending;

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(std::string(block->name) + ", block " + std::to_string(blockIdx.x) + ", thread " +
                           std::to_string(threadIdx.x) + ": " + what);
}

void leave() {
  Lane& lane = block->lanes[block->current];
  lane.fibre.switch_to(block->scheduler);
}

void fibre_main() {
  try {
    (*block->body)();
    const Lane& lane = block->lanes[block->current];
    if (!lane.open_copies.empty() ||
        std::any_of(lane.groups.begin(), lane.groups.end(), [](const auto& g) { return !g.empty(); })) {
      fail("ends with asynchronous copies under way");
    }
  } catch (const std::exception& error) {
    if (block->failure.empty()) block->failure = error.what();
  }
  block->lanes[block->current].state = State::kDone;
  ++block->done;
  leave();
}

// All lanes of the warp bring operands; the last one does the work for all.
void meet(Operation operation, void* operands) {
  const size_t index = block->current, warp = index / kWarp;
  Lane& lane = block->lanes[index];
  lane.operation = operation;
  lane.operands = operands;
  if (++block->at_warp[warp] < kWarp) {
    lane.state = State::kAtWarp;
    leave();
    return;
  }
  void* all[kWarp];
  for (size_t i = 0; i < kWarp; ++i) {
    Lane& other = block->lanes[warp * kWarp + i];
    if (other.operation != operation) fail("the lanes of a warp are in different warp-wide instructions");
    all[i] = other.operands;
  }
  operation(all);
  block->at_warp[warp] = 0;
  for (size_t i = 0; i < kWarp; ++i) block->lanes[warp * kWarp + i].state = State::kReady;
}

std::vector<size_t> running_order(size_t count, std::mt19937& random) {
  std::vector<size_t> order(count);
  for (size_t i = 0; i < count; ++i) order[i] = chosen_order == Order::kDescending ? count - 1 - i : i;
  if (chosen_order == Order::kShuffled) std::shuffle(order.begin(), order.end(), random);
  return order;
}

// Runs the lanes of a warp until all wait at a barrier or have ended: warps get as far apart as barriers
// allow, which shows where one is missing. False: no lane could run.
bool run_warp(size_t warp, std::mt19937& random) {
  bool moved = false, again = true;
  while (again && block->failure.empty()) {
    again = false;
    for (const size_t lane : running_order(kWarp, random)) {
      const size_t index = warp * kWarp + lane;
      if (block->lanes[index].state != State::kReady) continue;
      block->current = index;
      threadIdx.x = static_cast<unsigned>(index);
      block->scheduler.switch_to(block->lanes[index].fibre);
      moved = again = true;
    }
  }
  return moved;
}

void run_block(std::mt19937& random) {
  const size_t threads = block->lanes.size();
  unsigned char *below = block->shared - kGuardBytes, *above = block->shared + block->shared_bytes;
  std::memset(block->shared, kPoison, block->shared_bytes);
  std::memset(below, kGuard, kGuardBytes);
  std::memset(above, kGuard, kGuardBytes);
  for (size_t i = 0; i < threads; ++i) {
    block->lanes[i].state = State::kReady;
    block->lanes[i].open_copies.clear();
    block->lanes[i].groups.clear();
    block->lanes[i].fibre.prepare(block->stacks.get() + i * kStackBytes, fibre_main);
  }
  std::fill(block->at_warp.begin(), block->at_warp.end(), 0);
  block->at_barrier = block->done = 0;
  while (block->done < static_cast<int>(threads)) {
    bool moved = false;
    for (const size_t warp : running_order(threads / kWarp, random)) {
      moved = run_warp(warp, random) || moved;
      if (moved && chosen_order == Order::kAscending) break;  // the last lag behind as far as barriers allow
    }
    if (!block->failure.empty()) throw std::runtime_error(block->failure);
    if (!moved) {
      fail("stuck: " + std::to_string(block->at_barrier) + " threads wait at a barrier, " +
           std::to_string(block->done) + " of " + std::to_string(threads) +
           " have ended, the others wait for lanes of their warp");
    }
  }
  const auto untouched = [](const unsigned char* guard) {
    return std::all_of(guard, guard + kGuardBytes, [](unsigned char c) { return c == kGuard; });
  };
  if (!untouched(below) || !untouched(above)) fail("wrote outside its shared memory");
}

struct MultiplyAdd {
  float* c;
  const uint32_t *a, *b;
};
float half_of(uint32_t word, int half) {
  const uint32_t bits = half == 0 ? word << 16 : word & 0xffff0000u;
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}
void multiply_add_all(void* const operands[kWarp]) {
  float a[16][16], b[8][16];
  for (int lane = 0; lane < kWarp; ++lane) {
    const auto& mine = *static_cast<const MultiplyAdd*>(operands[lane]);
    for (int reg = 0; reg < 4; ++reg) {
      for (int half = 0; half < 2; ++half) {
        const Place at = a_place(lane, reg, half);
        a[at.row][at.col] = half_of(mine.a[reg], half);
        if (reg >= 2) continue;
        const Place bt = b_place(lane, reg, half);
        b[bt.col][bt.row] = half_of(mine.b[reg], half);
      }
    }
  }
  for (int lane = 0; lane < kWarp; ++lane) {
    const auto& mine = *static_cast<const MultiplyAdd*>(operands[lane]);
    for (int i = 0; i < 4; ++i) {
      const Place at = c_place(lane, i);
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += a[at.row][k] * b[at.col][k];
      mine.c[i] += sum;
    }
  }
}

struct LoadMatrices {
  uint32_t* reg;
  const uint16_t* row;
};
template <bool kTransposed>
void load_matrices_all(void* const operands[kWarp]) {
  for (int lane = 0; lane < kWarp; ++lane) {
    uint32_t* reg = static_cast<const LoadMatrices*>(operands[lane])->reg;
    for (int matrix = 0; matrix < 4; ++matrix) {
      uint32_t word = 0;
      for (int half = 0; half < 2; ++half) {
        const int row = kTransposed ? 2 * (lane % 4) + half : lane / 4,
                  col = kTransposed ? lane / 4 : 2 * (lane % 4) + half;
        word |= static_cast<uint32_t>(static_cast<const LoadMatrices*>(operands[matrix * 8 + row])->row[col])
                << (16 * half);
      }
      reg[matrix] = word;
    }
  }
}

struct Shuffle {
  float x;
  int from;
  float result;
};
void shuffle_all(void* const operands[kWarp]) {
  for (int lane = 0; lane < kWarp; ++lane) {
    auto& mine = *static_cast<Shuffle*>(operands[lane]);
    mine.result = static_cast<const Shuffle*>(operands[mine.from & (kWarp - 1)])->x;
  }
}
struct Ballot {
  bool x;
  uint32_t result;
};
void ballot_all(void* const operands[kWarp]) {
  uint32_t votes = 0;
  for (int lane = 0; lane < kWarp; ++lane)
    votes |= static_cast<uint32_t>(static_cast<const Ballot*>(operands[lane])->x) << lane;
  for (int lane = 0; lane < kWarp; ++lane) static_cast<Ballot*>(operands[lane])->result = votes;
}

bool in_shared(const void* at, size_t bytes) {
  const auto* p = static_cast<const unsigned char*>(at);
  return p >= block->shared && p + bytes <= block->shared + block->shared_bytes;
}

void land(const Copy& copy) {
  std::memset(copy.shared, 0, 16);
  if (copy.bytes > 0) std::memcpy(copy.shared, copy.global, static_cast<size_t>(copy.bytes));
}

}  // namespace

void set_order(Order order) { chosen_order = order; }

void run(const char* name, int64_t blocks, int threads, int shared_bytes, const std::function<void()>& body) {
  if (threads < 1 || threads % kWarp != 0 || threads > 1024)
    throw std::runtime_error(std::string(name) +
                             ": not a block size of whole warps: " + std::to_string(threads));
  Block state;
  state.name = name;
  state.body = &body;
  state.lanes.resize(static_cast<size_t>(threads));
  state.at_warp.resize(static_cast<size_t>(threads) / kWarp);
  state.stacks.reset(new unsigned char[kStackBytes * static_cast<size_t>(threads)]);
  state.shared_bytes = static_cast<size_t>(shared_bytes);
  const size_t all_bytes =
      // the guard is a multiple of 128: aligned as on the device
      (state.shared_bytes + 2 * kGuardBytes + 127) / 128 * 128;
  const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(128, all_bytes), &std::free);
  state.shared = static_cast<unsigned char*>(memory.get()) + kGuardBytes;
  block = &state;
  blockDim.x = static_cast<unsigned>(threads);
  gridDim.x = static_cast<unsigned>(blocks);
  std::mt19937 random(1);
  for (int64_t b = 0; b < blocks; ++b) {
    blockIdx.x = static_cast<unsigned>(b);
    run_block(random);
  }
  block = nullptr;
}

unsigned char* shared_memory() { return block->shared; }

void multiply_add(float* c, const uint32_t* a, const uint32_t* b) {
  MultiplyAdd operands{c, a, b};
  meet(multiply_add_all, &operands);
}

void load_matrices(uint32_t* reg, const void* row, bool transposed) {
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0 || !in_shared(row, 16))
    fail("ldmatrix from an address that is not 16 aligned bytes of shared memory");
  LoadMatrices operands{reg, static_cast<const uint16_t*>(row)};
  meet(transposed ? load_matrices_all<true> : load_matrices_all<false>, &operands);
}

float shuffle(float x, int from_lane) {
  Shuffle operands{x, from_lane, 0};
  meet(shuffle_all, &operands);
  return operands.result;
}

uint32_t ballot(bool x) {
  Ballot operands{x, 0};
  meet(ballot_all, &operands);
  return operands.result;
}

void copy_async(void* shared, const void* global, int bytes) {
  if (reinterpret_cast<uintptr_t>(shared) % 16 != 0 || reinterpret_cast<uintptr_t>(global) % 16 != 0 ||
      !in_shared(shared, 16)) {
    fail("cp.async wants 16 aligned bytes of shared memory and of global memory");
  }
  const Copy copy{shared, global, bytes};
  if (chosen_order == Order::kShuffled) land(copy);
  block->lanes[block->current].open_copies.push_back(copy);
}

void end_copy_group() {
  Lane& lane = block->lanes[block->current];
  lane.groups.push_back(std::move(lane.open_copies));
  lane.open_copies.clear();
}

void wait_for_copies(int pending) {
  Lane& lane = block->lanes[block->current];
  while (static_cast<int>(lane.groups.size()) > pending) {
    if (chosen_order != Order::kShuffled)
      std::for_each(lane.groups.front().begin(), lane.groups.front().end(), land);
    lane.groups.pop_front();
  }
}

}  // namespace longhaul::kernels::cuda::emulation

void __syncthreads() {
  using namespace longhaul::kernels::cuda::emulation;
  if (++block->at_barrier < static_cast<int>(block->lanes.size())) {
    block->lanes[block->current].state = State::kAtBarrier;
    leave();
    return;
  }
  block->at_barrier = 0;
  for (Lane& lane : block->lanes) {
    if (lane.state == State::kAtBarrier) lane.state = State::kReady;
  }
}
