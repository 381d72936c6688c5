#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>

#include "kernels/cuda/runtime.h"

namespace longhaul::kernels::cuda::runtime {
namespace {

std::chrono::steady_clock::time_point started;

}  // namespace

Machine machine() {
  Machine emulated;
  emulated.usable = emulated.emulated = true;
  emulated.name = "emulation on the CPU";
  emulated.multiprocessors = 4;
  return emulated;
}

void* allocate(int64_t bytes) {
  void* memory = std::aligned_alloc(256, (static_cast<size_t>(bytes) + 255) / 256 * 256);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void release(void* memory) { std::free(memory); }
void copy_on_device(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));  // empty buffers have no address
}
void to_device(void* device, const void* host, int64_t bytes) { copy_on_device(device, host, bytes); }
void to_host(void* host, const void* device, int64_t bytes) { copy_on_device(host, device, bytes); }
void fill(void* device, unsigned char byte, int64_t bytes) {
  std::memset(device, byte, static_cast<size_t>(bytes));
}
void synchronize() {}
void start_timer() { started = std::chrono::steady_clock::now(); }
double stop_timer_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - started).count();
}

}  // namespace longhaul::kernels::cuda::runtime
