// Driving: the implementation of DriverCore. The object takes one input at a time, changes its Ledger only
// through journal entries, and collects commands. Its parts are in files of their own:
//
//   driving.cpp          dispatches inputs; writes journal entries, changes states
//   driving_nodes.cpp    daemons that connect, speak or fall silent; heartbeats and ends of their ranks
//   driving_watch.cpp    ranks that train: time-outs, progress, plans for the next checkpoint; the end
//   driving_faults.cpp   SUSPECT: evidence, the verdict, whether the restart budget allows a restart
//   driving_search.cpp   the search for samples that kill
//   driving_repair.cpp   DIAGNOSE, REPAIR, RENDEZVOUS, CHECK: all until the next generation is started
//   driving_status.cpp   status.json
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "control/driver/batch_search.h"
#include "control/driver/driver_core.h"
#include "control/driver/effective_time.h"
#include "control/driver/time_outs.h"
#include "control/faults.h"
#include "control/ledger.h"

namespace longhaul::control {

class Driving {
 public:
  Driving(RunPlan plan, Policy policy, const std::vector<JournalEntry>& journal);
  Commands on(const Input& input, double now_s);
  double next_tick_s(double now_s) const;
  State state() const { return state_; }
  const Ledger& ledger() const { return ledger_; }
  nlohmann::ordered_json status(double now_s) const;

 private:
  struct Node {
    NodeHello hello;
    bool connected = false;
    double heard_s = 0, came_s = 0;
    bool checked = false;   // passed the checks before its first ranks were started
    bool returned = false;  // it was evicted and has been rebooted: it must pass the checks again
    int64_t check = 0;      // id of the checks that run; 0: none
    std::optional<CheckResults> results;
    // Generation and rank of every process that the node still has.
    std::set<std::pair<int64_t, int64_t>> running;
    bool evidence_due = false;
    std::map<std::string, double> machine;  // its last sample
  };
  struct Rank {
    enum class State { kStarting, kRunning, kEnded, kLost };
    std::string node;
    State state = State::kStarting;
    std::optional<RankBeat> beat;
    double beat_s = 0;  // when the beat came
    int64_t resumed_step = -1;
    std::tuple<int64_t, int64_t, std::string, int64_t, std::string, int64_t> progress;
    // The longest age that the current progress has had, and the phase in which it had it.
    double standing_s = 0;
    std::string standing_in;
    bool stood_in_task = false;  // standing_in is the name of a phase of the task
    // Age of each work of its background threads, when the beat came.
    std::map<std::string, double> background;
    std::optional<RankExited> exited;
    bool training() const {
      return beat && beat->step >= 0 && beat->phase != "start" && beat->phase != "load";
    }
  };
  enum class Stopping { kNo, kNow, kSaving };

  // driving.cpp
  void take(const Tick&) {}
  void take(const FromNode& from);
  void take(const ConnectionLost& lost);
  void take(const NodeDied& died);
  void take(const Evict& evict);
  void take(const Drain& drain);
  void take(const Abort& abort);
  void take(const Committed& committed);
  void take(const HangFound& found);
  void take(const Suspected& suspected);
  void take(const JournalProblem& problem);
  void advance();
  void take_up();
  void held_up(double for_s);
  void note_committed();
  void record(JournalBody body);
  void go(State state, const std::string& reason);
  void say(std::string text) { commands_.push_back(Say{std::move(text)}); }
  void emit(observe::EventBody body) { commands_.push_back(Emit{std::move(body)}); }
  void to(const std::string& node, DriverMessage message) {
    commands_.push_back(ToNode{node, std::move(message)});
  }
  double in_state_s() const { return now_s_ - state_since_s_; }
  void finish(State state, ExitCode code, const std::string& text, int64_t rank = -1);

  // driving_nodes.cpp
  void hear(const std::string& name, const NodeHello& hello);
  void hear(const std::string& name, const NodeBeat& beat);
  void hear(const std::string& name, const RankExited& exited);
  void hear(const std::string& name, const HealthReport& report);
  void hear(const std::string& name, const CheckResults& results);
  void hear(const std::string& name, const Evidence& evidence);
  void hear(const std::string&, const KeysRenewed&) {}  // DriverService handles it
  std::string refusal(const std::string& name, const NodeHello& hello) const;
  void say_what_was_found(const NodeHello& hello);
  void tell_of_unknown_ranks(const std::string& name, const std::vector<RankBeat>& running);
  void learn_of_ranks(const std::string& name, const std::vector<RankBeat>& running,
                      const std::vector<RankExited>& ended);
  void take_beat(const std::string& name, const RankBeat& beat);
  void take_end(const std::string& name, RankExited exited);
  void missing_ranks(const std::string& name, const NodeHello& hello, bool same_daemon);
  void silent_nodes();
  void lose(const std::string& name, const std::string& reason);
  void evict(const std::string& name, const std::string& reason);
  void set_node(const std::string& name, const std::string& state, const std::string& reason,
                bool leaving = false);
  void write_blocked();
  bool placed(const std::string& name) const;  // has ranks of this generation
  bool usable(const std::string& name) const;
  std::vector<std::string> usable_nodes(bool spares) const;  // in the order in which they are used
  int64_t slots_of(const std::vector<std::string>& names) const;
  const Width* widest(int64_t slots) const;  // null: no width fits

  // driving_watch.cpp
  bool ranks_run() const { return state_ == State::kLoad || state_ == State::kTrain; }
  void watch();
  void watch_steps();
  bool watch_progress();  // true: ranks hang
  bool watch_background(int64_t number, const Rank& rank, double since_s);
  double limit_s(const Rank& rank) const;  // for its standing where it stands
  void excuse_task_phases();
  void watch_plans();
  void watch_end();
  void drain();
  bool all_ended() const;
  int64_t least_step() const;
  void recovered();
  void restart_planned(const std::string& reason, bool save);
  void end_generation();
  void stop_ranks(double grace_s, bool save, const std::string& reason, bool leave = false);
  void stop_survivors(const Fault& fault);

  // driving_faults.cpp
  void fault(Fault fault);
  void health(const std::string& node, const HealthReport& report);
  // overdue_s: seconds since the deadline of what hangs; work: the work of a background thread that hangs.
  void suspect_hang(const std::string& text, double overdue_s, const std::string& work = "");
  void suspect();  // the state
  std::vector<int64_t> silent_ranks() const;
  std::vector<int64_t> outliers() const;
  std::vector<int64_t> stuck_ranks() const;
  void hang_known(const std::vector<int64_t>& suspects, bool program, const std::string& text);
  void judge();
  bool pay(const Fault& root, const Verdict& verdict);  // false: the run has ended
  bool over_already(const Fault& root);                 // true: the run has ended, with success
  int64_t open(const Fault& fault, const Verdict& verdict, bool restarts);
  void act(const Fault& fault, Verdict& verdict);
  bool replaceable(const std::string& name) const;
  bool can_do_without(const std::string& name) const;
  Fault root_cause() const;

  // driving_search.cpp
  void probe_died(const Fault& root);
  void search_on(bool died);

  // driving_repair.cpp
  void diagnose();
  void repair();
  void rendezvous();
  void check();
  void start_checks(const std::string& suite, double limit_s, const std::vector<std::string>& names);
  std::vector<std::string> failed_checks(const std::vector<std::string>& names) const;
  void begin_generation(const Width& width, std::vector<NodeRanks> placement);
  double waits_for_nodes_s() const;
  std::string why_nodes_are_missing() const;
  std::vector<std::string> without(const std::vector<std::string>& names,
                                   const std::set<std::string>& gone) const;

  RunPlan plan_;
  Policy policy_;
  Ledger ledger_;
  Commands commands_;
  double now_s_ = 0, told_s_ = 0;  // told_s_: when the last input came
  double held_up_s_ = 0;           // seconds since this generation began
  double task_s_ = 0;              // before the first step: spent in phases of the task, within their limits
  double excused_until_s_ = -1;    // when that was last added up; −1: not yet

  State state_ = State::kInit;
  double state_since_s_ = 0;
  bool taken_up_ = false;              // the ranks that went on without a driver have been looked for
  bool begun_ = false, fresh_ = true;  // fresh_: no generation of this run is to be continued
  std::map<std::string, Node> nodes_;
  std::map<int64_t, Rank> ranks_;  // ranks of the ledger's generation
  int64_t newest_seen_ = 0;        // newest generation that any node has reported
  const Width* width_ = nullptr;
  Stopping stopping_ = Stopping::kNo;
  bool planned_ = false;  // the stop is planned, not caused by a fault
  StopRanks last_stop_;
  bool draining_ = false, drain_failed_ = false;
  std::string drain_reason_;

  std::vector<Fault> faults_;  // faults of the current suspicion, in the order in which they came
  bool gathering_ = false, analysing_ = false, stop_at_last_call_ = false;
  double gathering_until_s_ = 0, last_call_s_ = 0;
  std::string stuck_work_;  // work of a background thread that hangs; empty: the ranks themselves hang
  double overdue_s_ = 0;    // of the hang that is being analysed
  // Names of nodes, to be handled once their ranks have ended.
  std::set<std::string> evicting_, restarting_, checking_;
  std::vector<int64_t> open_incidents_;  // closed when training goes on
  double fault_s_ = 0, not_before_s_ = 0;
  int64_t last_step_ = -1, checks_ = 0;
  int64_t committed_ = -1;      // newest checkpoint that was reported
  bool at_checkpoint_ = false;  // a checkpoint has come since the plans were checked
  bool expecting_nodes_ = false, wrote_skip_ = false;
  double wide_since_s_ = 0;
  bool generation_open_ = false, first_step_done_ = false;

  ProgressTimeOuts time_outs_;
  EffectiveTime time_;
};

}  // namespace longhaul::control
