// The CUDA execution model on a CPU, so that the very kernels of the GPU run in the tests: one fibre per CUDA thread of a block,
// blocks one after another. Warp-wide calls complete when all 32 lanes have made the same one, barriers when all threads have; a
// block that cannot go on is an error that says who waits where. Shared memory starts as NaN in every block and has guards;
// asynchronous copies land as late as the program allows, or at once. The order in which threads run can be varied: results must not depend
// on it. Not for speed. One launch at a time per thread of the host.
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

enum class Order { kAscending, kDescending, kShuffled };  // kShuffled: asynchronous copies land at once
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

}  // namespace longhaul::kernels::cuda::emulation
