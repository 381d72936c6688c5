// Devices, streams and events: the CPU, and GPUs if LibTorch was built with CUDA and the driver shows one.
// The same source serves both builds, because everything goes through LibTorch's own device interface,
// which its CUDA library joins when it is loaded.
//
// Work on a GPU is queued: a call returns before its result is there, and the work of one stream runs in
// the order in which it was queued. On the CPU a call has finished its work when it returns, so a stream is
// always empty and an event is the time at which it was recorded. Each thread has its own current stream.
// Every function here may be called from any thread, an Event from one at a time.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tensor/tensor.h"

namespace longhaul {

// The device named "cpu"; "cuda" (the first GPU) or "cuda:N"; or "auto": the first GPU if there is one,
// else the CPU. `where` is named in errors: kUsage for other texts and for a GPU when this LibTorch has no
// CUDA; kDevice when no GPU is visible or none has that number.
at::Device device_named(std::string_view text, std::string_view where = "train.device");
std::string name_of(at::Device device);  // "cpu", "cuda:0"

bool libtorch_has_cuda();
int64_t gpu_count();  // visible GPUs; 0 also when this LibTorch has no CUDA or no driver is installed

struct GpuDescription {
  std::string name;  // "NVIDIA H200"
  int64_t memory_bytes = 0;
  int major = 0, minor = 0;  // compute capability: 9.0 is Hopper
  int multiprocessors = 0;
};
GpuDescription describe_gpu(at::Device device);  // kDevice when the driver does not answer

// The memory of a GPU that LibTorch's allocator took, and that the driver has left (neither includes the
// share of other programs).
struct DeviceMemory {
  int64_t allocated_bytes = 0, peak_allocated_bytes = 0;  // in tensors
  int64_t held_bytes = 0, peak_held_bytes = 0;            // tensors and cached blocks
  int64_t free_bytes = 0, total_bytes = 0;
};
DeviceMemory device_memory(at::Device device);  // of a GPU
void reset_device_memory_peaks(at::Device device);

// Sets the device that allocations without an index, and kernels, of this thread use; no effect on the CPU.
using DeviceScope = c10::DeviceGuard;

class Event;

class Stream {
 public:
  static Stream current(at::Device device);  // of this thread
  static Stream another(at::Device device);  // a stream of LibTorch's pool, other than the current one
  at::Device device() const { return stream_.device(); }
  void* handle() const;           // cudaStream_t; null on the CPU
  void wait(const Event& event);  // what is queued from now on runs after the event; the caller does not wait
  void synchronize() const;       // the caller waits until the stream is empty

 private:
  friend class Event;
  explicit Stream(c10::Stream stream) : stream_(stream) {}
  c10::Stream stream_;
};

inline void* current_stream(at::Device device) { return Stream::current(device).handle(); }
void synchronize(at::Device device);  // the caller waits for all streams of the device

// A point in a stream's queue.
class Event {
 public:
  explicit Event(at::Device device);
  // After everything that is queued there now; recording again moves the event.
  void record(const Stream& stream);
  bool reached() const;                                   // an event that was never recorded has been reached
  void synchronize() const;                               // the caller waits for it
  double milliseconds_since(const Event& earlier) const;  // both recorded; waits for this one

 private:
  friend class Stream;
  std::optional<c10::Event> event_;  // on a GPU
  int64_t recorded_ns_ = 0;          // on the CPU
};

// A CPU tensor that a GPU can copy from or into without blocking the caller (page-locked memory); an
// ordinary one if `partner` is the CPU.
Tensor empty_host_tensor(at::IntArrayRef sizes, ScalarType type, at::Device partner);

// The CPU tensor's copy on `device`: the tensor itself if that is the CPU, else a copy that is queued on
// the current stream; the caller may free `host` at once.
Tensor to_device(const Tensor& host, at::Device device);

}  // namespace longhaul
