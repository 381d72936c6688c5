// The few GPU functions that gpu-check needs: memory, copies, waiting, time. runtime.cu is CUDA; the tests'
// emulation does the same on the host. Errors are std::runtime_error with CUDA's message.
#pragma once

#include <cstdint>
#include <string>

namespace longhaul::kernels::cuda::runtime {

struct Machine {
  bool usable = false;
  bool emulated = false;
  std::string reason;  // why it is not usable
  std::string name;
  int major = 0, minor = 0, multiprocessors = 0, driver_version = 0;
  int64_t memory_bytes = 0, cache_bytes = 0;
};
Machine machine();

void* allocate(int64_t bytes);
void release(void* memory);
void to_device(void* device, const void* host, int64_t bytes);
void to_host(void* host, const void* device, int64_t bytes);
void copy_on_device(void* to, const void* from, int64_t bytes);
void fill(void* device, unsigned char byte, int64_t bytes);
void synchronize();  // and reports what went wrong in kernels since the last call

void start_timer();
double stop_timer_ms();

}  // namespace longhaul::kernels::cuda::runtime
