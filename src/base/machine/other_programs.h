// OtherPrograms: how much of a run's cores other programs take, so that whoever reads the run's speed knows
// what it was measured beside. Cores of the machine that the run leaves free are no loss: they count first.
// Time that a hypervisor gives to other machines counts as other programs' time, too.
//
//   OtherPrograms others({.processes = {process_id()}, .cores = allowed_cores(), .wanted = 2});
//   others.share();   // a second later: 0.5 if other programs had one of the two cores all the time
//
// Source: /proc/stat and /proc/PID/stat. Used by one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace longhaul {

class OtherPrograms {
 public:
  struct Run {
    std::vector<int64_t> processes;  // all of the run on this machine
    std::vector<int> cores;          // that they may use
    double wanted = 1;               // cores that their threads use at once
  };
  explicit OtherPrograms(Run run, std::filesystem::path proc = "/proc");
  // The mean share (0 to 1) of the wanted cores since the call that told the last one, or since construction.
  // None: less than a second has passed, or the kernel does not tell.
  std::optional<double> share();

 private:
  struct Ticks {
    uint64_t all = 0, worked = 0, own = 0;  // of the run's cores; not idle; of its processes
  };
  std::optional<Ticks> read() const;
  Run run_;
  std::filesystem::path proc_;
  std::optional<Ticks> before_;
};

}  // namespace longhaul
