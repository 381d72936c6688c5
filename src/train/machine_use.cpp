#include "train/machine_use.h"

#include <utility>

#include "base/machine/processor_time.h"

namespace longhaul::train {

MachineUse::MachineUse(EnergyMeter meter) : meter_(std::move(meter)), processor_ns_(process_processor_ns()) {}

void MachineUse::tell(observe::StepReport& report) {
  const int64_t processor_ns = process_processor_ns();
  report.processor_milliseconds =
      static_cast<double>(processor_ns - std::exchange(processor_ns_, processor_ns)) * 1e-6;
  if (!meter_.any()) return;
  const double joules = meter_.joules();
  report.energy_joules = joules - std::exchange(joules_, joules);
}

}  // namespace longhaul::train
