// MachineUse: measures what training takes of the machine between two step reports: processor time of the
// process and joules of the machine's energy meters, including evaluation and saving in between. The first
// report counts from construction. Ranks that are threads of one process all see the same process and
// machine; the events of a run hold the values of its first rank. Used by one thread.
#pragma once

#include "base/machine/energy_meter.h"
#include "observe/events/event.h"

namespace longhaul::train {

class MachineUse {
 public:
  explicit MachineUse(EnergyMeter meter = EnergyMeter());
  void tell(observe::StepReport& report);

 private:
  EnergyMeter meter_;
  double joules_ = 0;
  int64_t processor_ns_ = 0;
};

}  // namespace longhaul::train
