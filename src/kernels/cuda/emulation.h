// The CUDA execution model on a CPU, so that the very kernels of the GPU run in the tests: one fibre per CUDA thread of a block,
// blocks one after another. Warp-wide calls complete when all 32 lanes have made the same one, barriers when all threads have; a
// block that cannot go on is an error that says who waits where. Shared memory starts as NaN in every block and has guards;
// asynchronous copies land as late as the program allows, or at once. The order in which threads run can be varied: results must not depend
// on it. Not for speed. One launch at a time per thread of the host.
//
// Products of a warp group (wgmma.h) are asynchronous too: operands are read, and accumulators written, as late as the program allows,
// or at once; until then the accumulators are NaN. Missing fences (wgmma.fence after registers were touched, fence.proxy.async after
// copies) are errors. Of what plain stores write to shared memory, no proxy fence is asked.
#pragma once

#include <cstdint>
#include <functional>

struct EmulatedIndex {
  unsigned x = 0;
};
// The names that CUDA gives every thread.
extern thread_local EmulatedIndex threadIdx, blockIdx, blockDim, gridDim;
void __syncthreads();

namespace longhaul::kernels::cuda::emulation {

enum class Order { kAscending, kDescending, kShuffled };  // kShuffled: asynchronous copies and products are done at once
void set_order(Order order);

void run(const char* name, int64_t blocks, int threads, int shared_bytes, const std::function<void()>& body);
unsigned char* shared_memory();

void multiply_add(float* c, const uint32_t* a, const uint32_t* b);
void load_matrices(uint32_t* reg, const void* row, bool transposed);
float shuffle(float x, int from_lane);
uint32_t ballot(bool x);
void copy_async(void* shared, const void* global, int bytes);
void end_copy_group();
void wait_for_copies(int pending);

// wgmma.h and barriers.h. A shared address is an odd multiple of 128 bytes where the memory begins, so that nobody relies on more.
constexpr uint32_t kSharedBase = 1024 + 128;
uint32_t shared_address(const void* at);
// Where the descriptor's matrix has (row of M or N, k), k < 16, in bf16; -1: not a layout that is emulated.
int64_t matrix_address(uint64_t descriptor, bool k_major, int row, int k);
struct GroupProduct {
  float* c;                     // m64nNk16: N / 2 values a lane
  int columns;                  // N
  bool add;                     // or c is replaced
  const uint32_t* a_registers;  // null: descriptor a
  uint64_t a, b;
  bool b_n_major;
};
void multiply_group(const GroupProduct& product);
void fence_group();
void commit_group();
void wait_for_group(int pending);
void fence_async_proxy();
void named_barrier_arrive(int id, int threads, bool wait);
void phase_init(void* barrier, int count);
void phase_arrive(void* barrier);
void phase_wait(const void* barrier, uint32_t parity);

}  // namespace longhaul::kernels::cuda::emulation
