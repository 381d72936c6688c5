// Hopper's part of the emulation: products of warp groups, named barriers, barriers in shared memory (PTX ISA 9.0, sections 9.7.13
// "Parallel Synchronization" and 9.7.15 "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions").
#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/cuda/emulation_state.h"

namespace longhaul::kernels::cuda::emulation {
namespace {

WarpGroup& my_group() { return block->groups[block->current / kGroupLanes]; }

float value_at(uint64_t descriptor, bool k_major, int row, int k) {
  const int64_t address = matrix_address(descriptor, k_major, row, k);
  if (address < 0) fail("wgmma: a descriptor without swizzle, or with a base offset, is not emulated");
  const int64_t offset = address - kSharedBase;
  if (offset < 0 || offset + 2 > static_cast<int64_t>(block->shared_bytes)) fail("wgmma: its descriptor points outside of shared memory");
  if (block->unfenced_by[static_cast<size_t>(offset) / 16] >= 0) {
    fail("wgmma reads what thread " + std::to_string(block->unfenced_by[static_cast<size_t>(offset) / 16]) +
         " copied and has not fenced (fence.proxy.async)");
  }
  uint16_t bits;
  std::memcpy(&bits, block->shared + offset, 2);
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float x;
  std::memcpy(&x, &wide, 4);
  return x;
}

using Values = std::vector<float>;

Values read_a(const Product& product) {
  Values a(64 * 16);
  if (!product.a_in_registers) {
    for (int i = 0; i < 64 * 16; ++i) a[static_cast<size_t>(i)] = value_at(product.a, true, i / 16, i % 16);
    return a;
  }
  for (int thread = 0; thread < static_cast<int>(kGroupLanes); ++thread) {
    for (int i = 0; i < 8; ++i) {
      const Place at = a_place(thread % kWarp, i / 2, i % 2);
      const uint32_t pair = product.a_registers[static_cast<size_t>(thread)][i / 2], bits = i % 2 == 0 ? pair << 16 : pair & 0xffff0000u;
      std::memcpy(&a[static_cast<size_t>((thread / kWarp * 16 + at.row) * 16 + at.col)], &bits, 4);
    }
  }
  return a;
}

void execute(const Product& product) {
  const Values a = read_a(product);
  Values b(static_cast<size_t>(product.columns) * 16);
  for (int i = 0; i < product.columns * 16; ++i) b[static_cast<size_t>(i)] = value_at(product.b, !product.b_n_major, i / 16, i % 16);
  Accumulator& accumulator = my_group().accumulators.at(product.accumulator);
  const int each = product.columns / 2;
  for (int thread = 0; thread < static_cast<int>(kGroupLanes); ++thread) {
    for (int i = 0; i < each; ++i) {
      const Place at = c_place(thread % kWarp, i % 4);
      const float* left = &a[static_cast<size_t>(thread / kWarp * 16 + at.row) * 16];
      const float* right = &b[static_cast<size_t>(i / 4 * 8 + at.col) * 16];
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += left[k] * right[k];
      float& value = accumulator.values[static_cast<size_t>(thread * each + i)];
      value = product.add ? value + sum : sum;
    }
  }
}

void write_back(const Accumulator& accumulator) {
  const size_t each = accumulator.values.size() / kGroupLanes;
  for (size_t thread = 0; thread < kGroupLanes; ++thread)
    std::copy_n(accumulator.values.begin() + static_cast<std::ptrdiff_t>(thread * each), each, accumulator.registers[thread]);
}

bool at_once() { return chosen_order == Order::kShuffled; }

Accumulator& take_accumulator(WarpGroup& group, void* const operands[], int columns) {
  const auto registers_of = [&](size_t thread) { return static_cast<const GroupProduct*>(operands[thread])->c; };
  Accumulator& accumulator = group.accumulators[registers_of(0)];
  const size_t each = static_cast<size_t>(columns) / 2;
  if (accumulator.products++ > 0) {
    if (accumulator.values.size() != kGroupLanes * each) fail("wgmma: one accumulator in products of different shapes");
    return accumulator;
  }
  for (size_t thread = 0; thread < kGroupLanes; ++thread) {
    float* const registers = registers_of(thread);
    accumulator.registers.push_back(registers);
    accumulator.values.insert(accumulator.values.end(), registers, registers + each);
    if (!at_once()) std::fill_n(registers, each, std::numeric_limits<float>::quiet_NaN());
  }
  return accumulator;
}

void multiply_all(void* const operands[]) {
  const GroupProduct& first = *static_cast<const GroupProduct*>(operands[0]);
  WarpGroup& group = my_group();
  if (!group.fenced) fail("wgmma without wgmma.fence before it");
  Product product{.columns = first.columns,
                  .add = first.add,
                  .a_in_registers = first.a_registers != nullptr,
                  .b_n_major = first.b_n_major,
                  .a = first.a,
                  .b = first.b,
                  .a_registers = {},
                  .accumulator = first.c};
  for (size_t thread = 0; thread < kGroupLanes; ++thread) {
    const GroupProduct& other = *static_cast<const GroupProduct*>(operands[thread]);
    if (other.columns != first.columns || other.a != first.a || other.b != first.b || other.add != first.add) {
      fail("wgmma: the threads of a warp group bring different descriptors");
    }
    product.a_registers.push_back(other.a_registers);
  }
  const Accumulator& accumulator = take_accumulator(group, operands, first.columns);
  if (at_once()) {
    execute(product);
    write_back(accumulator);
  }
  group.open.push_back(std::move(product));
}

void fence_all(void* const[]) { my_group().fenced = true; }

void commit_all(void* const[]) {
  WarpGroup& group = my_group();
  group.batches.push_back(std::move(group.open));
  group.open.clear();
}

void wait_all(void* const operands[]) {
  WarpGroup& group = my_group();
  while (static_cast<int>(group.batches.size()) > *static_cast<const int*>(operands[0])) {
    for (const Product& product : group.batches.front()) {
      if (!at_once()) execute(product);
      const auto found = group.accumulators.find(product.accumulator);
      if (--found->second.products > 0) continue;
      if (!at_once()) write_back(found->second);
      group.accumulators.erase(found);
    }
    group.batches.pop_front();
  }
  group.fenced = false;  // whoever waits touches the registers next
}

struct Phase {  // in the 8 bytes of an mbarrier
  uint16_t magic, expected, pending, phase;
};
constexpr uint16_t kPhaseMagic = 0x4d42;

Phase read_phase(const void* barrier) {
  if (reinterpret_cast<uintptr_t>(barrier) % 8 != 0 || !in_shared(barrier, sizeof(Phase)))
    fail("an mbarrier is 8 aligned bytes of shared memory");
  Phase phase;
  std::memcpy(&phase, barrier, sizeof phase);
  if (phase.magic != kPhaseMagic) fail("an mbarrier that is not initialised");
  return phase;
}

}  // namespace

uint32_t shared_address(const void* at) {
  return kSharedBase + static_cast<uint32_t>(static_cast<const unsigned char*>(at) - block->shared);
}

// "Matrix Descriptor Format" and "Strides" (9.7.15.5.1): start address in bits 0 … 13, leading-dimension offset in 16 … 29, stride
// offset in 32 … 45, all without their four lowest bits; base offset in 49 … 51; swizzle in 62 … 63 (1: 128, 2: 64, 3: 32 bytes).
// Swizzled and K-major: 8 rows of that many bytes follow one another, the stride leads to the next 8 rows, the leading offset is unused.
// Swizzled and MN-major: 8 values of k, each with that many bytes along M or N, follow one another; the stride leads to the next 8 k, the
// leading offset to the next piece along M or N. In both, address bits 4, 5, 6 are exclusive-ored with bits 7, 8, 9 (fewer for 64 and 32).
int64_t matrix_address(uint64_t descriptor, bool k_major, int row, int k) {
  const auto field = [&](int bit) { return static_cast<int64_t>(descriptor >> bit & 0x3fff) << 4; };
  const auto mode = static_cast<int>(descriptor >> 62), base_offset = static_cast<int>(descriptor >> 49 & 7);
  if (mode == 0 || base_offset != 0) return -1;
  const int64_t bytes = 256 >> mode, leading = field(16), stride = field(32);
  const int64_t along = 2 * (k_major ? k : row), across = k_major ? row : k;  // along the contiguous dimension, and rows of it
  const int64_t linear = field(0) + (k_major ? along : along % bytes + along / bytes * leading) + across % 8 * bytes + across / 8 * stride;
  return linear ^ ((linear >> 7 & (bytes / 16 - 1)) << 4);
}

void multiply_group(const GroupProduct& product) {
  GroupProduct operands = product;
  meet_group(multiply_all, &operands);
}
void fence_group() { meet_group(fence_all, nullptr); }
void commit_group() { meet_group(commit_all, nullptr); }
void wait_for_group(int pending) { meet_group(wait_all, &pending); }

void fence_async_proxy() {
  const auto me = static_cast<int>(block->current);
  for (const size_t unit : block->lanes[block->current].unfenced) {
    if (block->unfenced_by[unit] == me) block->unfenced_by[unit] = -1;
  }
  block->lanes[block->current].unfenced.clear();
}

void named_barrier_arrive(int id, int threads, bool wait) {
  if (id < 1 || id > 15 || threads % kWarp != 0) fail("a named barrier has a number of 1 … 15 and whole warps");
  NamedBarrier& barrier = block->named_barriers[id];
  if (barrier.arrived > 0 && barrier.expected != threads) fail("threads disagree on how many meet at barrier " + std::to_string(id));
  barrier.expected = threads;
  Lane& mine = block->lanes[block->current];
  if (++barrier.arrived == threads) {
    barrier.arrived = 0;
    for (Lane& lane : block->lanes) {
      if (lane.state == State::kAtNamedBarrier && lane.named_barrier == id) lane.state = State::kReady;
    }
    return;
  }
  if (!wait) return;
  mine.state = State::kAtNamedBarrier;
  mine.named_barrier = id;
  leave();
}

void phase_init(void* barrier, int count) {
  if (reinterpret_cast<uintptr_t>(barrier) % 8 != 0 || !in_shared(barrier, sizeof(Phase)))
    fail("an mbarrier is 8 aligned bytes of shared memory");
  const Phase phase{kPhaseMagic, static_cast<uint16_t>(count), static_cast<uint16_t>(count), 0};
  std::memcpy(barrier, &phase, sizeof phase);
}
void phase_arrive(void* barrier) {
  Phase phase = read_phase(barrier);
  const bool over = --phase.pending == 0;
  if (over) {
    phase.pending = phase.expected;
    ++phase.phase;
  }
  std::memcpy(barrier, &phase, sizeof phase);
  if (!over) return;
  block->lanes[block->current].state = State::kGivingWay;  // those who waited act before whoever let them goes on
  leave();
}
bool phase_is_over(const Lane& lane) { return (read_phase(lane.phased).phase & 1u) != lane.parity; }
void phase_wait(const void* barrier, uint32_t parity) {
  read_phase(barrier);
  Lane& lane = block->lanes[block->current];
  lane.phased = static_cast<const unsigned char*>(barrier);
  lane.parity = parity;
  if (phase_is_over(lane)) return;
  lane.state = State::kAwaiting;
  leave();
}

void reset_groups() {
  for (WarpGroup& group : block->groups) group = {};
  block->named_barriers.clear();
  std::fill(block->unfenced_by.begin(), block->unfenced_by.end(), -1);
}
void check_groups() {
  for (const WarpGroup& group : block->groups) {
    if (!group.accumulators.empty()) fail("a warp group ends with products under way");
  }
  for (const auto& [id, barrier] : block->named_barriers) {
    if (barrier.arrived > 0) fail("the block ends with threads at barrier " + std::to_string(id) + " that nobody met");
  }
}

}  // namespace longhaul::kernels::cuda::emulation
