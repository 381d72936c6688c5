#include "tensor/cpu_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <mutex>

#include "base/error.h"
#include "base/machine/machine.h"
#include "base/progress.h"
#include "tensor/caching_heap.h"
#include "tensor/replay_arena.h"

namespace longhaul {
namespace {

// never destroyed: tensors of static lifetime may be freed after main
std::atomic<CachingHeap*> heap{nullptr};

void free_block(void* data) { heap.load(std::memory_order_relaxed)->free(data); }

// Under the label of an Error's field.
std::string indented(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  std::string result;
  for (const char c : text) result += c == '\n' ? "\n            " : std::string(1, c);
  return result;
}

[[noreturn]] void throw_out_of_memory(size_t bytes) {
  const auto purpose = MemoryPurposeScope::current();
  throw Error(
      {.code = ExitCode::kOutOfMemory,
       .what = fmt::format("out of memory: no {} for {}", bytes_text(static_cast<int64_t>(bytes)),
                           name_of(purpose)),
       .expected = fmt::format("that much of the {} available (the machine has {})",
                               bytes_text(available_memory_bytes()), bytes_text(machine().memory_bytes)),
       .found = indented(memory_table_text(memory_statistics())),
       .hint = "halve train.micro_batch (the result stays the same), or lower train.sequence, or choose a "
               "smaller model"});
}

// The data pointer is its own context and the deleter a plain function: oneDNN allocates through
// raw_allocate, which needs both.
class CpuAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* data = nullptr;
    if (bytes > 0) {
      data = heap.load(std::memory_order_relaxed)->allocate(bytes, MemoryPurposeScope::current());
      if (data == nullptr) throw_out_of_memory(bytes);
    }
    return {data, data, &free_block, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

void install_cpu_allocator(int64_t limit_bytes) {
  static std::once_flag once;
  std::call_once(once, [&] {
    static CpuAllocator allocator;
    heap = new CachingHeap(limit_bytes);
    c10::SetCPUAllocator(&allocator, /*priority=*/1);
  });
}

bool cpu_allocator_installed() { return heap != nullptr; }

CachingHeap* tensor_heap() { return heap.load(); }

MemoryStatistics memory_statistics() {
  return cpu_allocator_installed() ? heap.load()->statistics() : MemoryStatistics();
}

void reset_memory_peaks() {
  if (cpu_allocator_installed()) heap.load()->reset_peaks();
}

void trim_memory() {
  if (cpu_allocator_installed()) heap.load()->trim();
}

std::string memory_table_text(const MemoryStatistics& statistics) {
  const auto row = [](std::string_view name, const std::string& now, const std::string& peak) {
    return fmt::format("{:<18} {:>10} {:>10}\n", name, now, peak);
  };
  std::string text = row("memory", "in use", "peak");
  for (size_t i = 0; i < kMemoryPurposes; ++i) {
    const MemoryUse& use = statistics.purposes[i];
    if (use.peak > 0)
      text += row(name_of(static_cast<MemoryPurpose>(i)), bytes_text(use.bytes), bytes_text(use.peak));
  }
  text += row("together", bytes_text(statistics.total.bytes), bytes_text(statistics.total.peak));
  text += row("of the machine", bytes_text(statistics.held_bytes), bytes_text(statistics.peak_held_bytes));
  return text;
}

void set_memory_poison(bool on) {
  install_cpu_allocator();
  heap.load()->set_poison(on);
}

void check_memory_guards() {
  if (!cpu_allocator_installed()) return;
  const auto damage = heap.load()->damage();
  LONGHAUL_ASSERT(damage.empty(), "memory was written outside its block: {}", fmt::join(damage, "; "));
}

}  // namespace longhaul
