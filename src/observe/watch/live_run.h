// LiveRun: the current state of a run, from the files in its folder only: events.jsonl, events/*.jsonl,
// control/status.json (for runs that a driver supervises), trace/rank-N.jsonl. poll() reads what is new;
// every display, metric and alert is made from RunView. Damaged lines are counted and skipped, so that
// watching never ends because of the files.
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

// TimeShares: how the wall time since the run began was used; the seconds sum to it. Productive are steps
// that still count.
struct TimeShares {
  double wall = 0, productive = 0;
  double repeated = 0;    // steps that were done again after a rollback
  double checkpoint = 0;  // training was blocked by a copy
  double stopped = 0;     // between processes: from the last event of one to the start of the next
  double starting = 0;    // from the start of a process to its first step
  // Evaluation, reports, …
  double other() const { return wall - productive - repeated - checkpoint - stopped - starting; }
  double ratio() const { return wall > 0 ? productive / wall : 0; }
};

// Trouble: a problem that is no fault of a rank: an alarm, or a step that was not finite.
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

// Over all steps ever done, for a histogram: counts of steps up to each bound, and the last for all.
struct StepTimes {
  static constexpr double kBounds_s[] = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250};
  int64_t counts[std::size(kBounds_s) + 1] = {};
  double sum_s = 0;
  void add(double seconds);
};

struct Totals {  // Sums over all processes of the run that only grow: steps that were done again count again.
  int64_t tokens = 0, samples = 0, steps = 0, skipped_steps = 0, nonfinite_steps = 0, rollbacks = 0,
          corruptions = 0;
  double data_wait_seconds = 0;
  StepTimes step_times;
  std::map<std::string, int64_t> alarms;  // by kind
  std::map<std::string, int64_t> minder;  // alerts of Minder by the metric in which a machine differs
};

// LastWord: when something was last reported, by the clock of the writer and by the clock of the reader. The
// clocks may differ. Therefore the age of what came during watching is measured by the reader's clock, and
// what was there at the first poll is at least as old as the time since then.
struct LastWord {
  double said = 0, seen = 0;  // wall times; 0: nothing yet
  bool came = false;          // during watching
  double age(double now) const { return came ? now - seen : std::max(now - seen, now - said); }
};

// CallUse: the calls of one kind in one group of ranks, in the last step that a rank recorded; of the rank
// for which they took longest.
struct CallUse {
  double seconds = 0;  // from request to end, whether hidden by computation or not
  int64_t bytes = 0;   // sent and received
};

struct RunView {
  std::string name;  // name of its folder
  // The name, made unique among the watched runs of that name: used in addresses, metrics and alerts.
  std::string job;
  std::filesystem::path folder;
  double now = 0;  // wall time of the poll
  RunHistory history;
  std::optional<RunStatus> status;
  std::vector<Incident> incidents;  // oldest first
  std::vector<Trouble> troubles;    // oldest first
  Totals totals;
  TimeShares time;
  LatencyMap latencies;
  bool traced = false;  // true: there are recorded steps to draw
  // By kind and axis of the group ("dp"), where steps are recorded.
  std::map<std::pair<std::string, std::string>, CallUse> calls;
  // Of the driver's status, of rank 0's events, of checkpoints.
  LastWord status_word, event_word, checkpoint_word;
  std::optional<Resume> loaded;  // the last checkpoint that was read
  double disk_free_ratio = 1;    // of the file system of the run folder
  int64_t damaged_lines = 0;

  bool has_driver() const { return status.has_value(); }
  double status_age() const { return status ? status_word.age(now) : 0; }
  int64_t step() const;
  int64_t planned_steps() const;
  int64_t generation() const;
  int64_t world() const;
  double seconds_a_step() const;                  // median of the last 50
  std::optional<double> entry_skew_s() const;     // from the last step that measured it
  std::optional<double> taken_by_others() const;  // likewise: of the run's cores, by other programs
  double effective_ratio() const;                 // the driver's figure, or the one computed from events
  std::optional<double> effective_ratio_hour() const;
  double checkpoint_interval_s() const;  // median time between checkpoints; 0: there are fewer than two
  StateText state() const;
};

std::string name_of_run(const std::filesystem::path& folder);

class LiveRun {
 public:
  // kData when there is no such folder. `job`: for when the folder's name is not unique.
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
  std::map<int64_t, int64_t> stage_of_;                                                 // from traces
  std::map<int64_t, std::map<std::pair<std::string, std::string>, CallUse>> calls_of_;  // by rank
  LatencyWindow window_;
  std::map<int64_t, std::string> measured_on_;  // rank → node, from the driver's last status
  std::vector<Incident> incidents_;
  std::string status_text_;
  int64_t polls_ = 0;
  Common last_ = {.generation = 0};        // of the last event; generation 0: none yet
  double elapsed_s_ = 0;                   // between the first event and the last
  std::optional<double> process_start_s_;  // on that scale; nullopt: the process has done a step
  double before_first_event_s_ = 0;        // part of time.starting
};

}  // namespace longhaul::observe
