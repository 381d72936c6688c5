#include "base/machine/energy_meter.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/machine/kernel_file.h"
#include "base/process/loaded_library.h"
#include "base/text/number.h"

namespace longhaul {
namespace {

constexpr const char* kNvml = "libnvidia-ml.so.1";

bool number_of(const std::string& text, double& value) {
  const std::optional<double> read = leading_number<double>(text);
  value = read.value_or(value);
  return read.has_value();
}

}  // namespace

bool EnergyMeter::Counter::read(double& value) const {
  if (gpu == nullptr) return number_of(kernel_line(file), value);
  using Energy = int (*)(void*, unsigned long long*);
  static const auto energy =
      reinterpret_cast<Energy>(find_symbol(kNvml, "nvmlDeviceGetTotalEnergyConsumption"));
  unsigned long long millijoules = 0;
  if (energy == nullptr || energy(gpu, &millijoules) != 0) return false;
  value = static_cast<double>(millijoules);
  return true;
}

void EnergyMeter::add(Counter counter) {
  if (counter.read(counter.last)) {
    counters_.push_back(std::move(counter));
  } else {
    remark_ += fmt::format("{}{} cannot be read", remark_.empty() ? "" : "; ", counter.name);
  }
}

// Packages, and the memory beside them; cores and graphics are inside a package, and "psys" holds packages
// too.
void EnergyMeter::add_rapl(const std::filesystem::path& powercap) {
  std::error_code none;
  std::vector<std::filesystem::path> zones;
  for (const auto& entry : std::filesystem::directory_iterator(powercap, none)) zones.push_back(entry.path());
  std::ranges::sort(zones);
  for (const auto& zone : zones) {
    const std::string name = kernel_line(zone / "name");
    if (!name.starts_with("package") && name != "dram") continue;
    Counter counter{.name = "RAPL " + name, .file = zone / "energy_uj"};
    number_of(kernel_line(zone / "max_energy_range_uj"), counter.wraps_at);
    add(std::move(counter));
  }
}

void EnergyMeter::add_nvml() {
  const auto init = reinterpret_cast<int (*)()>(find_symbol(kNvml, "nvmlInit_v2"));
  const auto count_of = reinterpret_cast<int (*)(unsigned*)>(find_symbol(kNvml, "nvmlDeviceGetCount_v2"));
  const auto handle_of =
      reinterpret_cast<int (*)(unsigned, void**)>(find_symbol(kNvml, "nvmlDeviceGetHandleByIndex_v2"));
  unsigned count = 0;
  if (init == nullptr || count_of == nullptr || handle_of == nullptr || init() != 0 || count_of(&count) != 0)
    return;
  for (unsigned i = 0; i < count; ++i) {
    Counter counter{.name = fmt::format("NVML GPU {}", i)};
    if (handle_of(i, &counter.gpu) == 0 && counter.gpu != nullptr) add(std::move(counter));
  }
}

EnergyMeter::EnergyMeter(const std::filesystem::path& powercap) {
  add_rapl(powercap);
  add_nvml();
  if (counters_.empty() && remark_.empty())
    remark_ = "this machine shows no energy counter (neither RAPL nor NVML)";
}

std::vector<std::string> EnergyMeter::sources() const {
  std::vector<std::string> names;
  for (const Counter& counter : counters_) names.push_back(counter.name);
  return names;
}

int64_t EnergyMeter::gpus() const {
  return std::ranges::count_if(counters_, [](const Counter& counter) { return counter.gpu != nullptr; });
}

double EnergyMeter::joules() {
  double sum = 0;
  read_all();
  for (const Counter& counter : counters_) sum += counter.joules;
  return sum;
}

double EnergyMeter::gpu_joules() {
  double sum = 0;
  read_all();
  for (const Counter& counter : counters_) sum += counter.gpu != nullptr ? counter.joules : 0;
  return sum;
}

void EnergyMeter::read_all() {
  for (Counter& counter : counters_) {
    double now = 0;
    if (counter.read(now)) {
      double difference = now - counter.last;
      if (difference < 0) difference += counter.wraps_at;
      counter.joules += std::max(0.0, difference) * (counter.gpu == nullptr ? 1e-6 : 1e-3);
      counter.last = now;
    }
  }
}

}  // namespace longhaul
