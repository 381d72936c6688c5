// RunControl: the requests that reach a run from outside, and the notices that the run gives back. The
// trainer asks between steps, and during an evaluation, on its own thread. This base class never requests
// anything, so the run is not interrupted. `longhaul train` implements it with signals
// (run/process_control.h); tests implement their own.
#pragma once

namespace longhaul::train {

class RunControl {
 public:
  virtual ~RunControl() = default;
  // the number of the signal that asked to save and stop, or 0
  virtual int stop_requested() { return 0; }
  virtual bool save_requested() { return false; }  // true once for each request
  virtual bool continued() { return false; }       // true once after the process was stopped and woken
  // Waits before a failed last save is tried again; false: give it up.
  virtual bool pause(double /*seconds*/) { return false; }
  virtual void evaluated() {}  // an evaluation has been written
  virtual void trained() {}    // no step follows, and the state is saved
};

}  // namespace longhaul::train
