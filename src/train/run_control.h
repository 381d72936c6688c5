// RunControl: what is said to a run from outside, and what it says back. The trainer asks between steps (and within an evaluation), on its own
// thread. This one says nothing: a run that nobody interrupts. `longhaul train` has signals behind it (run.cpp); tests write theirs.
#pragma once

namespace longhaul::train {

class RunControl {
 public:
  virtual ~RunControl() = default;
  virtual int stop_requested() { return 0; }       // the number of the signal that asked to save and stop, or 0
  virtual bool save_requested() { return false; }  // true once for each request
  virtual bool continued() { return false; }       // true once after the process was stopped and woken
  // Waits before a failed last save is tried again; false: give it up.
  virtual bool pause(double /*seconds*/) { return false; }
  virtual void evaluated() {}  // an evaluation has been written
  virtual void trained() {}    // no step follows, and the state is saved
};

}  // namespace longhaul::train
