// LiveRun: a run as it stands now, from what is in its folder and nothing else: events.jsonl, events/*.jsonl, control/status.json (of runs that a driver
// supervises), trace/rank-N.jsonl. poll() reads what is new; RunView is what every display, metric and alert is made of. Damaged lines are counted and
// passed over: watching never ends because of what it watches.
//
//   LiveRun run("runs/first-run");
//   while (true) { run.poll(wall_time_s()); show(run.view()); pause(1); }
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "observe/board/run_status.h"
#include "observe/events/line_tail.h"
#include "observe/events/run_history.h"
#include "observe/trace/trace_file.h"
#include "observe/watch/latency.h"

namespace longhaul::observe {

// Where the wall time went since the run began; seconds that sum to it. Productive are steps that still count.
struct TimeShares {
  double wall = 0, productive = 0;
  double repeated = 0;    // steps that were done again after going back
  double checkpoint = 0;  // training stood still for a copy
  double stopped = 0;     // between processes: from the last event of one to the start of the next
  double starting = 0;    // from the start of a process to its first step
  double other() const { return wall - productive - repeated - checkpoint - stopped - starting; }  // evaluation, reports, …
  double ratio() const { return wall > 0 ? productive / wall : 0; }
};

// Something that went wrong without being a fault of a rank: alarms, steps that were not finite.
struct Trouble {
  double wall_time = 0;
  int64_t rank = 0;
  std::string kind, text;
};

struct StateText {
  std::string word;      // "TRAIN", "finished", "silent"
  const char* kind;      // good, warn, bad: its colour
  std::string sentence;  // for people; may be empty
};

struct StepTimes {  // over all steps ever done, for a histogram: counts of steps up to each bound, the last for all
  static constexpr double kBounds_s[] = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250};
  int64_t counts[std::size(kBounds_s) + 1] = {};
  double sum_s = 0;
  void add(double seconds);
};

struct Totals {  // that only grow, over all processes of the run: what was done again counts again
  int64_t tokens = 0, samples = 0, steps = 0, skipped_steps = 0, nonfinite_steps = 0, rollbacks = 0, corruptions = 0;
  double data_wait_seconds = 0;
  StepTimes step_times;
  std::map<std::string, int64_t> alarms;  // by kind
};

// When something was last said: by the clock of who said it, and by the clock of who reads. The two may differ, so what came while we looked is as old as it
// is here, and what was there at the first look is at least as old as it has been looked at.
struct LastWord {
  double said = 0, seen = 0;  // wall times; 0: nothing yet
  bool came = false;          // while we looked
  double age(double now) const { return came ? now - seen : std::max(now - seen, now - said); }
};

// Calls of one kind in one group of ranks, in the last step that a rank recorded; of the rank that they took longest.
struct CallUse {
  double seconds = 0;  // from being asked for to their ends, beside computing or not
  int64_t bytes = 0;   // sent and received
};

struct RunView {
  std::string name;  // of its folder
  std::string job;   // the name, or what tells it from others of that name that are watched beside it: in addresses, metrics, alerts
  std::filesystem::path folder;
  double now = 0;  // wall time of the poll
  RunHistory history;
  std::optional<RunStatus> status;
  std::vector<Incident> incidents;  // oldest first
  std::vector<Trouble> troubles;    // likewise
  Totals totals;
  TimeShares time;
  LatencyMap latencies;
  bool traced = false;                                           // there are recorded steps to draw
  std::map<std::pair<std::string, std::string>, CallUse> calls;  // kind, axis of the group ("dp"): where steps are recorded
  LastWord status_word, event_word, checkpoint_word;             // of the driver's status, rank 0's events, checkpoints
  double disk_free_ratio = 1;                                    // of the file system of the run folder
  int64_t damaged_lines = 0;

  bool has_driver() const { return status.has_value(); }
  double status_age() const { return status ? status_word.age(now) : 0; }
  int64_t step() const;
  int64_t planned_steps() const;
  int64_t generation() const;
  int64_t world() const;
  double seconds_a_step() const;               // median of the last 50
  std::optional<double> entry_skew_s() const;  // as the last step that measured it said
  double effective_ratio() const;              // the driver's figure, or ours from events
  std::optional<double> effective_ratio_hour() const;
  double checkpoint_interval_s() const;  // median time between checkpoints; 0: there are not two
  StateText state() const;
};

std::string name_of_run(const std::filesystem::path& folder);

class LiveRun {
 public:
  // kData when there is no such folder. `job`: where the folder's name alone will not do.
  explicit LiveRun(const std::filesystem::path& folder, std::string job = "");
  void poll(double now_wall_s);
  const RunView& view() const { return view_; }

 private:
  void take_event(std::string_view line);
  void take_other(std::string_view line);
  double gone_since_last(const Common& common) const;
  void find_files();
  void read_status();
  void read_traces();
  void take_calls(int64_t rank, const StepTrace& step);
  void forget();
  void refresh_latencies();
  void forget_older_traces();
  void gather_incidents();

  RunView view_;
  LineTail events_;
  std::map<std::string, std::unique_ptr<LineTail>> others_, traces_;
  std::map<std::string, TraceRank> trace_ranks_;
  std::map<int64_t, int64_t> stage_of_;                                                 // by traces
  std::map<int64_t, std::map<std::pair<std::string, std::string>, CallUse>> calls_of_;  // by rank
  LatencyWindow window_;
  std::map<int64_t, std::string> measured_on_;  // rank → node, by the driver's last status
  std::vector<Incident> incidents_;
  std::string status_text_;
  int64_t polls_ = 0;
  Common last_ = {.generation = 0};        // of the last event; generation 0: none yet
  double elapsed_s_ = 0;                   // between the first event and the last
  std::optional<double> process_start_s_;  // on that scale; nullopt: the process has made a step
  double before_first_event_s_ = 0;        // part of time.starting
};

}  // namespace longhaul::observe
