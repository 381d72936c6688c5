#include "base/machine/other_programs.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>

#include "base/machine/kernel_file.h"
#include "base/machine/machine_counters.h"

namespace longhaul {
namespace {

constexpr uint64_t kTicksOfASecond = 100;  // USER_HZ, which the kernel gives to every program

}  // namespace

OtherPrograms::OtherPrograms(Run run, std::filesystem::path proc)
    : run_(std::move(run)), proc_(std::move(proc)), before_(read()) {}

// "cpu3 user nice system idle iowait irq softirq steal …"; the first line, "cpu", is the sum of all.
std::optional<OtherPrograms::Ticks> OtherPrograms::read() const {
  constexpr size_t kIdle = 3, kWaits = 4, kFields = 8;
  Ticks ticks;
  size_t found = 0;
  std::istringstream lines(kernel_text(proc_ / "stat"));
  for (std::string text; std::getline(lines, text) && text.starts_with("cpu");) {
    std::istringstream line(text);
    std::string name;
    line >> name;
    const bool ours =
        std::ranges::any_of(run_.cores, [&](int core) { return name == "cpu" + std::to_string(core); });
    if (!ours) continue;
    ++found;
    uint64_t value = 0;
    for (size_t field = 0; field < kFields && line >> value; ++field) {
      ticks.all += value;
      if (field != kIdle && field != kWaits) ticks.worked += value;
    }
  }
  for (const int64_t process : run_.processes) ticks.own += processor_ticks_of(process, proc_).value_or(0);
  return found > 0 && found == run_.cores.size() ? std::optional(ticks) : std::nullopt;
}

std::optional<double> OtherPrograms::share() {
  const std::optional<Ticks> now = read();
  const auto cores = static_cast<double>(run_.cores.size());
  if (before_ && now && now->all < before_->all + kTicksOfASecond * run_.cores.size()) return std::nullopt;
  const std::optional<Ticks> before = std::exchange(before_, now);
  // A process of the run that has ended takes its ticks along.
  if (!before || !now || now->own < before->own || now->worked < before->worked) return std::nullopt;
  const double of_a_core = static_cast<double>(now->all - before->all) / cores;
  const double others =
      static_cast<double>(now->worked - before->worked) - static_cast<double>(now->own - before->own);
  const double wanted = std::clamp(run_.wanted, 1e-9, cores);
  return std::clamp(others / of_a_core - (cores - wanted), 0.0, wanted) / wanted;
}

}  // namespace longhaul
