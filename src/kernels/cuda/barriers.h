// How warp groups with different tasks meet on Hopper: barriers in shared memory (mbarrier, PTX ISA 9.0, section 9.7.13.15), named barriers
// (9.7.13.1), the fence between copies and the tensor cores' reads (9.7.15.4), and the share of registers (setmaxnreg). sm_90a only, as wgmma.h.
//
// A PhaseBarrier goes through phases 0, 1, 2 …; a phase is over when as many threads as it was initialised with have arrived, and then the
// next one begins. Waiting for phase n takes its parity only, so nobody may be two phases behind.
#pragma once

#include "kernels/cuda/wgmma.h"

namespace longhaul::kernels::cuda {

struct PhaseBarrier {  // in shared memory
  uint64_t state;

  // By one thread; others may use it after the next __syncthreads.
  LONGHAUL_DEVICE void initialise(int count) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)), "r"(count) : "memory");
#elif !defined(__CUDACC__)
    emulation::phase_init(this, count);
#endif
  }
  // What the thread wrote before is seen by those who have waited.
  LONGHAUL_DEVICE void arrive() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(this)) : "memory");
#elif !defined(__CUDACC__)
    emulation::phase_arrive(this);
#endif
  }
  LONGHAUL_DEVICE void wait(int phase) const {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    uint32_t over = 0;
    while (over == 0) {
      asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                   : "=r"(over)
                   : "r"(shared_address(this)), "r"(phase & 1)
                   : "memory");
    }
#elif !defined(__CUDACC__)
    emulation::phase_wait(this, static_cast<uint32_t>(phase) & 1u);
#endif
  }
};

// Barrier `id` (1 … 15; 0 is __syncthreads) is passed when `threads` threads, whole warps, have come: meet waits for it, arrive does not.
LONGHAUL_DEVICE void named_barrier_meet(int id, int threads) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("barrier.sync.aligned %0, %1;" ::"r"(id), "r"(threads) : "memory");
#elif !defined(__CUDACC__)
  emulation::named_barrier_arrive(id, threads, true);
#endif
}
LONGHAUL_DEVICE void named_barrier_arrive(int id, int threads) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("barrier.arrive.aligned %0, %1;" ::"r"(id), "r"(threads) : "memory");
#elif !defined(__CUDACC__)
  emulation::named_barrier_arrive(id, threads, false);
#endif
}

// What this thread's finished copies wrote may be read by products from here on, by whoever comes after a barrier.
LONGHAUL_DEVICE void fence_async_proxy() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#elif !defined(__CUDACC__)
  emulation::fence_async_proxy();
#endif
}

// The warp group gives registers back, or takes them, until it has kCount a thread.
template <int kCount>
LONGHAUL_DEVICE void give_registers() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
#endif
}
template <int kCount>
LONGHAUL_DEVICE void take_registers() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
#endif
}

}  // namespace longhaul::kernels::cuda
