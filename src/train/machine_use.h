// What training takes of the machine between two reports of steps: processor time of the process and joules of the machine's meters, evaluation
// and saving on the way included. The first report counts from when this was made. Where ranks are threads of one process each sees the same
// process and machine; the events of a run are those of its first rank. One thread.
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
