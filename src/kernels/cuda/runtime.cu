#include "kernels/cuda/runtime.h"

#include <cuda_runtime.h>

#include <stdexcept>

namespace longhaul::kernels::cuda::runtime {
namespace {

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

struct Timer {
  cudaEvent_t begin = nullptr, end = nullptr;
  Timer() {
    check(cudaEventCreate(&begin), "cudaEventCreate");
    check(cudaEventCreate(&end), "cudaEventCreate");
  }
};
Timer& timer() {
  static Timer only;
  return only;
}

}  // namespace

Machine machine() {
  Machine found;
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    found.reason = status == cudaErrorInsufficientDriver
                       ? "no NVIDIA driver, or one too old for the CUDA that this was built with"
                   : status != cudaSuccess ? cudaGetErrorString(status)
                                           : "CUDA sees no device";
    return found;
  }
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  found.name = properties.name;
  found.major = properties.major;
  found.minor = properties.minor;
  found.multiprocessors = properties.multiProcessorCount;
  found.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  found.cache_bytes = properties.l2CacheSize;
  check(cudaDriverGetVersion(&found.driver_version), "cudaDriverGetVersion");
  found.usable = properties.major >= 8;
  if (!found.usable) found.reason = found.name + " is older than sm_80";
  return found;
}

void* allocate(int64_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, static_cast<size_t>(bytes)),
        ("cudaMalloc of " + std::to_string(bytes) + " bytes").c_str());
  return memory;
}
void release(void* memory) { check(cudaFree(memory), "cudaFree"); }
void to_device(void* device, const void* host, int64_t bytes) {
  check(cudaMemcpy(device, host, static_cast<size_t>(bytes), cudaMemcpyHostToDevice), "copy to the device");
}
void to_host(void* host, const void* device, int64_t bytes) {
  check(cudaMemcpy(host, device, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost), "copy from the device");
}
void copy_on_device(void* to, const void* from, int64_t bytes) {
  check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice),
        "copy on the device");
}
void fill(void* device, unsigned char byte, int64_t bytes) {
  check(cudaMemset(device, byte, static_cast<size_t>(bytes)), "cudaMemset");
}
void synchronize() { check(cudaDeviceSynchronize(), "a kernel failed"); }

void start_timer() { check(cudaEventRecord(timer().begin), "cudaEventRecord"); }
double stop_timer_ms() {
  check(cudaEventRecord(timer().end), "cudaEventRecord");
  check(cudaEventSynchronize(timer().end), "a timed kernel failed");
  float ms = 0;
  check(cudaEventElapsedTime(&ms, timer().begin, timer().end), "cudaEventElapsedTime");
  return ms;
}

}  // namespace longhaul::kernels::cuda::runtime
