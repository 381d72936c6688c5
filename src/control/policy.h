// What a driver is told at its start and never changes: the run (RunPlan) and how patient it is (Policy). Defaults are those of
// docs/sources/reliability.md §5.2 and §5.3. Seconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/order/data_position.h"

namespace longhaul::control {

struct MeshAxis {
  std::string name;  // "dp"
  int64_t size = 1;
};

// A number of ranks that the run can go on with: the whole one, or fewer replicas with the same batch (control/widths.h).
struct Width {
  int64_t ranks = 1;
  std::vector<std::string> overrides;  // recipe keys that this width needs beside those of the command line
  std::vector<MeshAxis> mesh;
};

struct BatchSize {
  int64_t from_step = 0, samples = 1;
};

struct RunPlan {
  std::string run, recipe, version;        // version: of Longhaul; nodes of another one are refused
  std::vector<Width> widths;               // widest first; never empty
  int64_t nodes = 1;                       // that the widest takes
  int64_t spares = 0;                      // that are expected beside them; the start does not wait for them
  int64_t steps = 0;                       // planned; 0: until stopped
  int64_t begun = 0;                       // generations, as far as anything but the journal tells: it may have been lost
  std::vector<BatchSize> batches = {{}};   // samples of a step, by the first step that has so many; the first from step 0
  std::vector<data::SampleRange> skipped;  // for good, as skip.json tells: what a lost journal knew
  std::vector<std::string> used_last;      // hosts that failed again and again, the worst at the end
  int64_t prefetch = 0;                    // steps whose samples are read before they are trained on
  std::vector<std::string> probe_overrides = {"train.checkpoint_every=0"};  // recipe keys under which a run commits nothing

  int64_t ranks() const { return widths.front().ranks; }
  int64_t first_position(int64_t step) const;  // of the samples that the step after `step` done ones trains on
};

struct Policy {
  // Deadlines of states.
  double join_s = 600;         // nodes to come, at the start
  double check_s = 75;         // pre-flight checks of a node
  double stop_time_s = 630;    // its stop-time checks
  double first_step_s = 1800;  // ranks to begin, load and do their first step
  double save_s = 600;         // ranks that were asked to save and end
  double end_s = 600;          // the other ranks to end after the first has ended well
  double gone_s = 40;          // ranks that were ended to be gone, before their node is given up

  // Heartbeats.
  double beat_every_s = 1;
  double rank_silent_s = 10;      // without a beat of the rank's own thread
  double node_silent_s = 15;      // without a word of its daemon
  double lease_s = 60;            // for which a node's ranks that all stand go on without the driver
  double rejoin_s = 10;           // for a daemon that was started again to come, when no spare is there
  double progress_floor_s = 60;   // shortest time-out of progress
  double progress_factor = 5;     // of the longest interval seen
  double progress_average = 0.5;  // share of what was learnt before, from one generation to the next

  // Faults.
  double last_call_s = 1;               // for faults at the same time to show
  double evidence_s = 5;                // for nodes to send what they know of ranks that hang
  double leave_s = 1;                   // for survivors to begin leaving their state in memory, and
  double leave_bytes_per_second = 5e8;  // how fast they do it at least: then they are ended
  double stop_grace_s = 0;  // between SIGTERM and SIGKILL of ranks after a fault: their peers are dead, they cannot save together
  int64_t restarts = 20;    // that may be paid for in restarts_window_s, refilled evenly; 0: the first fault ends the run with its code
  double restarts_window_s = 86400;
  int64_t cycles_without_progress = 3;  // then 93
  double back_off_s = 1;                // doubled with each fault without progress after the first
  double back_off_most_s = 300;
  double same_place_s = 86400;    // in which faults of a node or device count together
  double network_s = 300;         // in which two network faults evict
  int64_t read_ahead = 0;         // steps by which two deaths of one sample may differ: RunPlan::prefetch
  bool stop_for_software = true;  // a trace seen three times ends the run; false: it goes on while the budget lasts

  // Nodes.
  bool preflight = false;      // check nodes before their first ranks
  bool stop_checks = false;    // check suspected nodes before they are used again
  bool restart_nodes = true;   // a daemon that died on a machine that is reachable is started again
  double replacement_s = 0;    // for the engine to bring a node in the place of one that is gone; 0: it brings none
  int64_t search_samples = 1;  // a deadly batch is looked for until so few samples are left
  bool grow = true;            // back to the whole width when nodes are there, at a checkpoint
  double grow_s = 600;         // or at the latest so long after they came
  double block_s = 86400;      // for which an evicted node is not taken again
};

}  // namespace longhaul::control
