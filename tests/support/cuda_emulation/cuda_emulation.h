// Emulates the CUDA execution model on a CPU, so that the GPU's own kernels run in the tests: one fibre for
// each CUDA thread of a block, one block after another. A warp-wide call completes when all 32 lanes have
// made the same call, a barrier when all threads have reached it; a block that cannot continue is an error
// that says which threads wait where. Shared memory starts as NaN in every block and has guards;
// asynchronous copies complete as late as the program allows, or at once. The order in which threads run
// can be varied, because results must not depend on it. It is not meant to be fast. One launch at a time
// for each thread of the host.
#pragma once

#include <cstdint>
#include <functional>

struct EmulatedIndex {
  unsigned x = 0;
};
// The variables that CUDA defines in every thread.
extern thread_local EmulatedIndex threadIdx, blockIdx, blockDim, gridDim;
void __syncthreads();

namespace longhaul::kernels::cuda::emulation {

enum class Order { kAscending, kDescending, kShuffled };  // kShuffled: asynchronous copies complete at once
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
