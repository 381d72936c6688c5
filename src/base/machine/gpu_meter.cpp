#include "base/machine/gpu_meter.h"

#include "base/process/loaded_library.h"

namespace longhaul {
namespace {

constexpr const char* kNvmlFile = "libnvidia-ml.so.1";
constexpr unsigned kOfTheChip = 0, kClockOfMultiprocessors = 1;  // NVML's numbers

template <class Function>
Function function(const char* name) {
  return reinterpret_cast<Function>(find_symbol(kNvmlFile, name));
}

// NVML's handle of a GPU; null: there is none.
void* handle_of(int64_t gpu) {
  static const auto find = function<int (*)(unsigned, void**)>("nvmlDeviceGetHandleByIndex_v2");
  void* handle = nullptr;
  return find != nullptr && find(static_cast<unsigned>(gpu), &handle) == 0 ? handle : nullptr;
}

int64_t count_gpus() {
  const auto init = function<int (*)()>("nvmlInit_v2");
  const auto count = function<int (*)(unsigned*)>("nvmlDeviceGetCount_v2");
  unsigned gpus = 0;
  return init != nullptr && count != nullptr && init() == 0 && count(&gpus) == 0 ? int64_t{gpus} : 0;
}

std::optional<double> busy_percent_of(int64_t gpu) {
  struct Utilization {
    unsigned gpu = 0, memory = 0;
  } now;
  static const auto ask = function<int (*)(void*, Utilization*)>("nvmlDeviceGetUtilizationRates");
  void* const handle = handle_of(gpu);
  return ask != nullptr && handle != nullptr && ask(handle, &now) == 0 ? std::optional<double>(now.gpu)
                                                                       : std::nullopt;
}

std::optional<double> memory_percent_of(int64_t gpu) {
  struct Memory {
    unsigned long long total = 0, free = 0, used = 0;
  } now;
  static const auto ask = function<int (*)(void*, Memory*)>("nvmlDeviceGetMemoryInfo");
  void* const handle = handle_of(gpu);
  if (ask == nullptr || handle == nullptr || ask(handle, &now) != 0 || now.total == 0) return std::nullopt;
  return 100 * static_cast<double>(now.used) / static_cast<double>(now.total);
}

std::optional<double> number_of(const char* name, unsigned which, int64_t gpu) {
  const auto ask = function<int (*)(void*, unsigned, unsigned*)>(name);
  void* const handle = handle_of(gpu);
  unsigned value = 0;
  return ask != nullptr && handle != nullptr && ask(handle, which, &value) == 0 ? std::optional<double>(value)
                                                                                : std::nullopt;
}

}  // namespace

GpuCalls calls_of_nvml() {
  return {.count = count_gpus,
          .busy_percent = busy_percent_of,
          .memory_percent = memory_percent_of,
          .temperature_c = [](int64_t gpu) { return number_of("nvmlDeviceGetTemperature", kOfTheChip, gpu); },
          .clock_mhz =
              [](int64_t gpu) { return number_of("nvmlDeviceGetClockInfo", kClockOfMultiprocessors, gpu); }};
}

GpuMeter::GpuMeter(GpuCalls calls) : calls_(std::move(calls)), gpus_(calls_.count()) {}

GpuReading GpuMeter::read() const {
  // A GPU that does not answer is left out of the mean.
  const auto mean = [&](const std::function<std::optional<double>(int64_t)>& ask) -> std::optional<double> {
    double sum = 0;
    int64_t answers = 0;
    for (int64_t gpu = 0; gpu < gpus_; ++gpu) {
      if (const auto value = ask(gpu)) sum += *value, ++answers;
    }
    return answers > 0 ? std::optional(sum / static_cast<double>(answers)) : std::nullopt;
  };
  return {.busy_percent = mean(calls_.busy_percent),
          .memory_percent = mean(calls_.memory_percent),
          .temperature_c = mean(calls_.temperature_c),
          .clock_mhz = mean(calls_.clock_mhz)};
}

}  // namespace longhaul
