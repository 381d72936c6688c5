// The values that a driver gets at its start and never changes: the run (RunPlan) and the time-outs and
// limits (Policy). The defaults are those of docs/sources/reliability.md §5.2 and §5.3. Times are seconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/order/data_position.h"
#include "observe/board/run_status.h"

namespace longhaul::control {

// Width: a number of ranks with which the run can continue: all of them, or fewer replicas with the same
// batch (control/widths.h).
struct Width {
  int64_t ranks = 1;
  // Recipe options that this width needs in addition to those of the command line.
  std::vector<std::string> overrides;
  std::vector<observe::MeshAxis> mesh;  // slowest axis first
};

struct BatchSize {
  int64_t from_step = 0, samples = 1;
};

struct RunPlan {
  std::string run, recipe, version;  // version: of Longhaul; nodes with another one are refused
  std::vector<Width> widths;         // widest first; never empty
  int64_t nodes = 1;                 // number of nodes that the widest width takes
  int64_t spares = 0;                // nodes that are expected in addition; the start does not wait for them
  int64_t steps = 0;                 // planned steps; 0: until stopped
  // Number of generations that have begun, as far as anything but the journal tells, because the journal may
  // be lost.
  int64_t begun = 0;
  // Samples of a step, by the first step with that many; the first entry is from step 0.
  std::vector<BatchSize> batches = {{}};
  // Skipped for good, as skip.json lists them, in case the journal is lost.
  std::vector<data::SampleRange> skipped;
  std::vector<std::string> used_last;  // hosts that failed repeatedly, the worst at the end
  int64_t prefetch = 0;                // steps whose samples are read before they are trained on

  int64_t ranks() const { return widths.front().ranks; }
  // Position in the data order of the first sample of the step that follows `step` completed steps.
  int64_t first_position(int64_t step) const;
};

struct Policy {
  // Time limits of the states. Each comment says for what the time is.
  double join_s = 600;         // nodes to connect, at the start
  double check_s = 75;         // the pre-flight checks of a node
  double stop_time_s = 630;    // the stop-time checks of a node
  double first_step_s = 1800;  // ranks to start, load and do their first step
  double save_s = 600;         // ranks to save and end, after they were asked to
  double end_s = 600;          // the other ranks to end after the first has ended well
  double gone_s = 40;          // ended ranks to be gone, before their node is given up

  // Heartbeats.
  double beat_every_s = 1;
  double rank_silent_s = 10;      // without a heartbeat of the rank's own thread
  double node_silent_s = 15;      // without a message of its daemon
  double lease_s = 60;            // how long a node's ranks that all stand still go on without the driver
  double rejoin_s = 10;           // for a restarted daemon to connect, when there is no spare
  double progress_floor_s = 60;   // shortest time-out of progress
  double progress_factor = 5;     // times the longest interval seen
  double progress_average = 0.5;  // weight of the earlier value, from one generation to the next

  // Faults.
  double last_call_s = 1;  // for simultaneous faults to be reported
  double evidence_s = 5;   // for nodes to send evidence about ranks that hang
  double leave_s = 1;      // for surviving ranks to begin to write their state to memory
  // The least rate at which they write it; they are ended when the resulting time is over.
  double leave_bytes_per_second = 5e8;
  // Time between SIGTERM and SIGKILL of ranks after a fault: their peers are dead, so they cannot save
  // together.
  double stop_grace_s = 0;
  // Restarts within restarts_window_s, refilled evenly; 0: the first fault ends the run with its exit code.
  int64_t restarts = 20;
  double restarts_window_s = 86400;
  int64_t cycles_without_progress = 3;  // after so many the run ends with exit code 93
  // Waiting time before a restart; doubled with each fault without progress after the first.
  double back_off_s = 1;
  double back_off_most_s = 300;
  double same_place_s = 86400;  // time in which faults of one node or device are counted together
  double network_s = 300;       // time in which a second network fault evicts
  int64_t read_ahead = 0;       // by how many steps two deaths from one sample may differ: RunPlan::prefetch
  // A trace that is seen three times ends the run; false: the run goes on while the restart budget lasts.
  bool stop_for_software = true;

  // Nodes.
  bool preflight = false;      // check nodes before their first ranks start
  bool stop_checks = false;    // check suspected nodes before they are used again
  bool restart_nodes = true;   // restart a daemon that died on a reachable machine
  double replacement_s = 0;    // time that the engine needs to replace a lost node; 0: it replaces none
  int64_t search_samples = 1;  // the search for a deadly batch ends when so few samples are left
  bool grow = true;            // return to the full width when there are enough nodes, at a checkpoint
  double grow_s = 600;         // or at the latest so long after they connected
  double block_s = 86400;      // how long an evicted node is not used again
};

}  // namespace longhaul::control
