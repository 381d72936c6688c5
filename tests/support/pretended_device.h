// A simulated device: LibTorch's PrivateUse1 with one device, whose operators are the CPU's on copies. It
// tests these properties:
//
//   memory     the host cannot read device addresses: code that uses a device tensor's pointer as a CPU
//              pointer crashes
//   mixing     an operator that gets a CPU tensor (scalars aside) together with a device tensor is an
//              error, as on a GPU
//   queue      a copy to page-locked memory completes only when an event, stream or device is waited for;
//              until then it is NaN
//   reads      copies for which the host waits are counted
//   operators  what a GPU would start for them is counted
//
// The tests of one program share it; call pretended_device() first. Not for a LibTorch with CUDA, which
// supports no second accelerator.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <set>
#include <vector>

namespace longhaul::pretended {

constexpr auto kType = c10::DeviceType::PrivateUse1;
inline const c10::Device kDevice(kType, 0);

struct State {
  std::recursive_mutex mutex;
  std::vector<std::function<void()>> queue;  // copies to the host that are not complete
  std::set<const void*> page_locked;
  int64_t reads = 0, operators = 0;
  size_t landed = 0, queued = 0;
};
inline State& state() {
  static State it;
  return it;
}
inline thread_local bool inside_operator = false;

// Addresses with this bit flipped are invalid on x86-64 and on aarch64.
inline void* flipped(const void* address) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) ^ (uintptr_t{1} << 52));
}

inline void land_all() {
  const std::lock_guard lock(state().mutex);
  for (const auto& copy : state().queue) copy();
  state().queue.clear();
  state().landed = state().queued;
}

class Memory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* const real = std::aligned_alloc(64, (bytes / 64 + 1) * 64);
    std::memset(real, 0xff, bytes);  // NaN
    return {flipped(real), real, &std::free, kDevice};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(flipped(to), flipped(from), bytes);
  }
};

class PageLockedMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* const real = std::aligned_alloc(64, (bytes / 64 + 1) * 64);
    const std::lock_guard lock(state().mutex);
    state().page_locked.insert(real);
    return {real, real, &release, c10::Device(c10::DeviceType::CPU)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }

 private:
  static void release(void* real) {
    const std::lock_guard lock(state().mutex);
    state().page_locked.erase(real);
    std::free(real);
  }
};

struct EventState {
  size_t queued = 0;
  std::chrono::steady_clock::time_point time;
};

struct Interface final : c10::impl::DeviceGuardImplInterface {
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, kDevice); }
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return stream(); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override {
    return c10::Stream(c10::Stream::UNSAFE, kDevice, 1);
  }
  c10::Stream exchangeStream(c10::Stream) const override { return stream(); }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return flipped(reinterpret_cast<void*>(stream.id() + 1));
  }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void** event, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {
    if (*event == nullptr) *event = new EventState;
    *static_cast<EventState*>(*event) = {state().queued, std::chrono::steady_clock::now()};
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<EventState*>(event);
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void* event) const override {
    return static_cast<EventState*>(event)->queued <= state().landed;
  }
  bool queryStream(const c10::Stream&) const override { return state().queue.empty(); }
  void synchronizeEvent(void*) const override { land_all(); }
  void synchronizeStream(const c10::Stream&) const override { land_all(); }
  void synchronizeDevice(const c10::DeviceIndex) const override { land_all(); }
  double elapsedTime(void* a, void* b, const c10::DeviceIndex) const override {
    return std::chrono::duration<double, std::milli>(static_cast<EventState*>(b)->time -
                                                     static_cast<EventState*>(a)->time)
        .count();
  }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  // at::manual_seed sets the seed of every device there is.
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    static const at::Generator generator = at::detail::createCPUGenerator();
    return generator;
  }
  bool isPinnedPtr(const void* data) const override {
    const std::lock_guard lock(state().mutex);
    return state().page_locked.contains(data);
  }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    static PageLockedMemory memory;
    return &memory;
  }
};

// The same elements as a tensor that the host can read.
inline at::Tensor host_view(const at::Tensor& tensor) {
  return at::from_blob(flipped(tensor.const_data_ptr()), tensor.sizes(), tensor.strides(),
                       at::TensorOptions().dtype(tensor.scalar_type()));
}

inline Memory& memory() {
  static Memory it;
  return it;
}

inline at::Tensor empty_strided(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                                std::optional<at::ScalarType> type, std::optional<at::Layout>,
                                std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides),
                                           &memory(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           type.value_or(at::kFloat));
}

inline at::Tensor empty(c10::SymIntArrayRef sizes, std::optional<at::ScalarType> type,
                        std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                        std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(sizes), &memory(),
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   type.value_or(at::kFloat), format);
}

inline at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool non_blocking) {
  const at::NoGradGuard no_gradient;
  const std::lock_guard lock(state().mutex);
  if (to.is_cpu()) {
    const at::Tensor now = host_view(self).clone();
    if (non_blocking && !inside_operator && to.is_pinned()) {
      if (to.is_floating_point()) to.fill_(std::numeric_limits<double>::quiet_NaN());
      ++state().queued;
      state().queue.emplace_back([to, now] { to.copy_(now); });
      return to;
    }
    if (!inside_operator) {
      land_all();
      ++state().reads;
    }
    to.copy_(now);
    return to;
  }
  if (!inside_operator) ++state().operators;
  host_view(to).copy_(self.is_cpu() ? self : host_view(self));
  return to;
}

inline at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  if (self.sizes() != to.sizes()) {
    const c10::Storage& storage = to.storage();
    storage.set_data_ptr_noswap(memory().allocate(self.nbytes()));
    storage.set_nbytes(self.nbytes());
    to.unsafeGetTensorImpl()->set_sizes_contiguous(self.sizes());
  }
  return copy_from(self, to, false);
}

inline void refuse_mixture(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  bool device = false, host = false;
  const auto look = [&](const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    device = device || tensor.device().type() == kType;
    host = host || (tensor.is_cpu() && tensor.dim() > 0);
  };
  const size_t arguments = op.schema().arguments().size();
  for (size_t i = stack.size() - arguments; i < stack.size(); ++i) {
    if (stack[i].isTensor())
      look(stack[i].toTensor());
    else if (stack[i].isTensorList())
      for (const at::Tensor& tensor : stack[i].toTensorList()) look(tensor);
    else if (stack[i].isOptionalTensorList()) {
      for (const auto& each : stack[i].toOptionalTensorList()) {
        const std::optional<at::Tensor> tensor = each;
        if (tensor) look(*tensor);
      }
    }
  }
  TORCH_CHECK(!(device && host), op.schema().name(), " got tensors of the host beside tensors of the device");
}

inline void on_the_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  refuse_mixture(op, *stack);
  if (op.schema().name() == "aten::_local_scalar_dense") {
    land_all();
    ++state().reads;
  }
  const bool outer = inside_operator;
  if (!outer) ++state().operators;
  inside_operator = true;
  try {
    at::native::cpu_fallback(op, stack);
  } catch (...) {
    inside_operator = outer;
    throw;
  }
  inside_operator = outer;
}

// As TORCH_LIBRARY_IMPL does, but once in a program and not once in each file that includes this.
inline torch::Library library_of(const char* name) {
  return {torch::Library::IMPL, name, c10::DispatchKey::PrivateUse1, __FILE__, __LINE__};
}
inline const torch::Library own_operators = [] {
  torch::Library library = library_of("aten");
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("view", TORCH_FN(at::native::view));
  library.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  return library;
}();
inline const torch::Library other_operators = [] {
  torch::Library library = library_of("_");
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&on_the_cpu>());
  return library;
}();

}  // namespace longhaul::pretended

namespace longhaul {

inline at::Device pretended_device() {
  static const bool registered = [] {
    static pretended::Interface interface;
    static pretended::Hooks hooks;
    c10::register_privateuse1_backend("pretended");
    c10::impl::registerDeviceGuard(pretended::kType, &interface);
    at::RegisterPrivateUse1HooksInterface(&hooks);
    return true;
  }();
  (void)registered;
  return pretended::kDevice;
}

// Registers at load time, because LibTorch's autograd engine counts devices once, at the first backward
// pass of the program.
inline const bool registered_at_load =
    !c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA) && pretended_device() == pretended::kDevice;

// How often the host has waited for values of the simulated device since the last call.
inline int64_t pretended_reads() { return std::exchange(pretended::state().reads, 0); }

// How many operators the device has run since the last call, copies to it and on it among them.
inline int64_t pretended_operators() { return std::exchange(pretended::state().operators, 0); }

}  // namespace longhaul
