#include "tensor/device.h"

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "base/clock.h"
#include "base/error.h"
#include "base/process/loaded_library.h"
#include "base/text/number.h"
#include "tensor/gpu_identity.h"
#include "tensor/libtorch_folder.h"

namespace longhaul {
namespace {

using c10::impl::VirtualGuardImpl;

VirtualGuardImpl interface_of(at::Device device) { return VirtualGuardImpl(device.type()); }

// Whether calls return before their work is done. Devices beside CUDA's come from tests.
bool queues(at::Device device) { return !device.is_cpu() && !device.is_meta(); }

std::optional<int64_t> gpu_number(std::string_view text) {
  if (text == "cuda") return 0;
  if (!text.starts_with("cuda:")) return std::nullopt;
  text.remove_prefix(5);
  const std::optional<int64_t> number = parse_number<int64_t>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

at::Device gpu(int64_t number, std::string_view text, std::string_view where) {
  const std::string on_cpu = fmt::format("{}=cpu", where);
  if (!libtorch_has_cuda()) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "this LibTorch computes on the CPU alone",
                 .expected = fmt::format("a LibTorch with CUDA for {}", text),
                 .found = fmt::format("LibTorch {} without CUDA in {}", libtorch_version(),
                                      libtorch_folder().string()),
                 .where = std::string(where),
                 .hint = on_cpu + ", or build with one that has it: LONGHAUL_TORCH=… ./longhaul build"});
  }
  const int64_t count = gpu_count();
  if (number >= count) {
    throw Error({.code = ExitCode::kDevice,
                 .what = count == 0 ? "no GPU is visible" : "there is no such GPU",
                 .expected = count == 0 ? "a GPU and its driver (nvidia-smi lists them)"
                                        : fmt::format("cuda:0 to cuda:{}", count - 1),
                 .found = count == 0 ? "none" : std::string(text),
                 .where = std::string(where),
                 .hint = count == 0 ? on_cpu + "; CUDA_VISIBLE_DEVICES may hide GPUs"
                                    : fmt::format("{}=cuda:0", where)});
  }
  return {at::kCUDA, static_cast<c10::DeviceIndex>(number)};
}

c10::DeviceAllocator& allocator_of(at::Device device) {
  LONGHAUL_ASSERT(device.is_cuda(), "{} has no device allocator", device.str());
  at::globalContext().lazyInitDevice(at::kCUDA);
  return *c10::getDeviceAllocator(at::kCUDA);
}

// The GPU's own words for itself come from its driver; LibTorch's interface for devices does not tell them,
// and the headers of CUDA are not needed for four functions.
class Driver {
 public:
  Driver() {
    using Initialise = int (*)(unsigned);
    const auto initialise = symbol<Initialise>("cuInit");
    device_get_ = symbol<int (*)(int*, int)>("cuDeviceGet");
    get_name_ = symbol<int (*)(char*, int, int)>("cuDeviceGetName");
    total_memory_ = symbol<int (*)(size_t*, int)>("cuDeviceTotalMem_v2");
    get_attribute_ = symbol<int (*)(int*, int, int)>("cuDeviceGetAttribute");
    get_identity_ = symbol<int (*)(unsigned char*, int)>("cuDeviceGetUuid_v2");
    require(initialise(0), "cuInit");
  }

  GpuDescription describe(int number) const {
    constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76;  // CUdevice_attribute
    GpuDescription found;
    int handle = 0;
    require(device_get_(&handle, number), "cuDeviceGet");
    std::array<char, 256> name{};
    require(get_name_(name.data(), static_cast<int>(name.size()) - 1, handle), "cuDeviceGetName");
    size_t bytes = 0;
    require(total_memory_(&bytes, handle), "cuDeviceTotalMem");
    found.name = name.data();
    found.memory_bytes = static_cast<int64_t>(bytes);
    require(get_attribute_(&found.major, kMajor, handle), "cuDeviceGetAttribute");
    require(get_attribute_(&found.minor, kMinor, handle), "cuDeviceGetAttribute");
    require(get_attribute_(&found.multiprocessors, kMultiprocessors, handle), "cuDeviceGetAttribute");
    return found;
  }

  std::string identity(int number) const {
    int handle = 0;
    require(device_get_(&handle, number), "cuDeviceGet");
    std::array<unsigned char, 16> identity{};
    require(get_identity_(identity.data(), handle), "cuDeviceGetUuid");
    return fmt::format("{:02x}", fmt::join(identity, ""));
  }

 private:
  template <class Function>
  static Function symbol(const char* name) {
    void* const found = find_symbol("libcuda.so.1", name);
    if (found == nullptr) fail(fmt::format("libcuda.so.1 with {} is missing", name));
    return reinterpret_cast<Function>(found);
  }
  static void require(int result, const char* call) {
    if (result != 0) fail(fmt::format("{} answers {}", call, result));
  }
  [[noreturn]] static void fail(const std::string& found) {
    throw Error({.code = ExitCode::kDevice,
                 .what = "the GPU's driver does not answer",
                 .found = found,
                 .hint = "nvidia-smi tells more"});
  }

  int (*device_get_)(int*, int) = nullptr;
  int (*get_name_)(char*, int, int) = nullptr;
  int (*total_memory_)(size_t*, int) = nullptr;
  int (*get_attribute_)(int*, int, int) = nullptr;
  int (*get_identity_)(unsigned char*, int) = nullptr;
};

}  // namespace

at::Device device_named(std::string_view text, std::string_view where) {
  if (text == "cpu") return at::kCPU;
  if (text == "auto") return gpu_count() > 0 ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  if (const auto number = gpu_number(text)) return gpu(*number, text, where);
  throw Error({.code = ExitCode::kUsage,
               .what = "unknown device",
               .expected = "auto, cpu, cuda or cuda:N",
               .found = std::string(text),
               .where = std::string(where),
               .hint = fmt::format("{}=auto", where)});
}

std::string name_of(at::Device device) { return device.str(); }

bool libtorch_has_cuda() { return c10::impl::hasDeviceGuardImpl(at::kCUDA); }

int64_t gpu_count() { return libtorch_has_cuda() ? VirtualGuardImpl(at::kCUDA).deviceCount() : 0; }

namespace {

const Driver& driver_of(at::Device device) {
  LONGHAUL_ASSERT(device.is_cuda() && device.has_index(), "{} is no numbered GPU", device.str());
  static const Driver driver;
  return driver;
}

}  // namespace

GpuDescription describe_gpu(at::Device device) { return driver_of(device).describe(device.index()); }
std::string gpu_identity(at::Device device) { return driver_of(device).identity(device.index()); }

DeviceMemory device_memory(at::Device device) {
  c10::DeviceAllocator& allocator = allocator_of(device);
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto statistics = allocator.getDeviceStats(device.index());
  const auto [free_bytes, total_bytes] = allocator.getMemoryInfo(device.index());
  return {.allocated_bytes = statistics.allocated_bytes[kAll].current,
          .peak_allocated_bytes = statistics.allocated_bytes[kAll].peak,
          .held_bytes = statistics.reserved_bytes[kAll].current,
          .peak_held_bytes = statistics.reserved_bytes[kAll].peak,
          .free_bytes = static_cast<int64_t>(free_bytes),
          .total_bytes = static_cast<int64_t>(total_bytes)};
}

void reset_device_memory_peaks(at::Device device) { allocator_of(device).resetPeakStats(device.index()); }

Stream Stream::current(at::Device device) { return Stream(interface_of(device).getStream(device)); }

Stream Stream::another(at::Device device) {
  return Stream(queues(device) ? interface_of(device).getStreamFromGlobalPool(device)
                               : interface_of(device).getStream(device));
}

void* Stream::handle() const {
  return queues(device()) ? interface_of(device()).getStreamNativeHandle(stream_) : nullptr;
}

void Stream::wait(const Event& event) {
  if (event.event_) event.event_->block(stream_);
}

void Stream::synchronize() const { interface_of(device()).synchronizeStream(stream_); }

void synchronize(at::Device device) {
  if (queues(device)) interface_of(device).synchronizeDevice(device.index());
}

Event::Event(at::Device device) {
  if (queues(device)) event_.emplace(device.type(), c10::EventFlag::BACKEND_DEFAULT);  // the flag: with times
}

void Event::record(const Stream& stream) {
  if (event_) event_->record(stream.stream_);
  recorded_ns_ = monotonic_ns();
}

bool Event::reached() const { return !event_ || event_->query(); }

void Event::synchronize() const {
  if (event_) event_->synchronize();
}

double Event::milliseconds_since(const Event& earlier) const {
  LONGHAUL_ASSERT(recorded_ns_ > 0 && earlier.recorded_ns_ > 0, "an event was never recorded");
  if (!event_) return static_cast<double>(recorded_ns_ - earlier.recorded_ns_) * 1e-6;
  synchronize();
  return earlier.event_->elapsedTime(*event_);
}

Tensor empty_host_tensor(at::IntArrayRef sizes, ScalarType type, at::Device partner) {
  return at::empty(sizes, at::TensorOptions().dtype(type).pinned_memory(queues(partner)));
}

Tensor to_device(const Tensor& host, at::Device device) {
  if (device.is_cpu()) return host;
  if (!queues(device)) return host.to(device);
  Tensor staged = empty_host_tensor(host.sizes(), host.scalar_type(), device);
  staged.copy_(host);
  // LibTorch keeps freed page-locked memory aside until the copies that use it are done.
  return staged.to(device, /*non_blocking=*/true);
}

}  // namespace longhaul
