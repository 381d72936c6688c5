#include "control/simulation/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "control/driver/batch_search.h"
#include "control/ledger.h"
#include "control/simulation/virtual_cluster.h"

namespace longhaul::control {
namespace {

constexpr std::array<std::string_view, kInjectedKinds> kInjectedNames = {"kill",
                                                                         "crash",
                                                                         "out_of_memory",
                                                                         "hang",
                                                                         "stop",
                                                                         "device",
                                                                         "lost_peer",
                                                                         "daemon",
                                                                         "node",
                                                                         "partition",
                                                                         "driver",
                                                                         "slow",
                                                                         "two",
                                                                         "during_recovery",
                                                                         "supervised_daemon",
                                                                         "held_up",
                                                                         "lost_journal"};

bool documented(ExitCode code) {
  return code == ExitCode::kDone || code == ExitCode::kDoNotRestart || code == ExitCode::kCommunication ||
         code == ExitCode::kOutOfMemory;
}

class Playing {
 public:
  explicit Playing(const SimulationOptions& options)
      : options_(options), dice_(options.seed, "faults"), cluster_(options_, time_, result_.broken) {
    plan_ = {.run = "sim",
             .recipe = "sim",
             .version = "sim",
             .widths = {},
             .nodes = options.nodes,
             .spares = options.spares,
             .steps = options.steps};
    plan_.batches = {{.from_step = 0, .samples = 8}};
    for (int64_t nodes = options.nodes; nodes > 0; --nodes) {
      plan_.widths.push_back({.ranks = nodes * options.ranks_per_node,
                              .overrides = {},
                              .mesh = {{"dp", nodes * options.ranks_per_node}}});
    }
    if (options.deadly_sample) cluster_.deadly = 8 * (options.steps / 3) + dice_.below(8 * options.steps / 3);
  }

  SimulationResult play() {
    begin_s_ = time_.now_s;
    cluster_.on_died = [this](const std::string& node) { died(node); };
    cluster_.on_lost = [this](const std::string& node) { lost(node); };
    start_driver();
    cluster_.begin();
    next_fault();
    while (!over_ && time_.now_s < begin_s_ + options_.most_s && time_.step()) {
    }
    if (!over_)
      broken(fmt::format("still in {} after {:.0f} s",
                         core_ ? name_of(core_->state()) : "a driver that is away", options_.most_s));
    settle();
    return std::move(result_);
  }

 private:
  void broken(std::string what) {
    if (result_.broken.size() < 20) result_.broken.push_back(fmt::format("{:.3f} s: {}", time_.now_s, what));
  }

  void tell(const std::string& what) {
    if (options_.tells) result_.story.push_back(fmt::format("{:.3f} s: {}", time_.now_s, what));
  }

  // ---- the shell around the driver

  void start_driver() {
    Journal journal = journal_from_text(journal_, "journal");
    journal_.resize(static_cast<size_t>(journal.whole_bytes));  // the torn line
    core_ = std::make_unique<DriverCore>(plan_, options_.policy, journal.entries);
    ++life_;
    ++result_.drivers;
    cluster_.on_message = [this](const std::string& node, const NodeMessage& message) {
      feed(FromNode{node, message});
    };
    tick(life_);
  }

  void tick(int64_t life) {
    // Held up: another tick is due afterwards.
    if (over_ || life != life_ || core_ == nullptr || held_up_) return;
    feed(Tick{});
    if (over_ || life != life_ || core_ == nullptr) return;
    if (cluster_.newest_usable() > committed_) feed(Committed{committed_ = cluster_.newest_usable()});
    if (over_ || life != life_ || core_ == nullptr) return;
    time_.at(std::min(core_->next_tick_s(time_.now_s), time_.now_s + 0.5), [this, life] { tick(life); });
  }

  void feed(const Input& input) {
    if (over_ || core_ == nullptr) return;
    if (held_up_) {
      unheard_.push_back(input);
      return;
    }
    const Commands commands = core_->on(input, time_.now_s);
    const int64_t life = life_;
    for (const Command& command : commands) {
      if (dies_before_ > 0 && --dies_before_ == 0) {
        dies_in_the_middle_ = true;
        return driver_dies();
      }
      std::visit([this](const auto& what) { run(what); }, command);
      if (over_ || life != life_) return;
    }
  }

  // The driver is started again after a while; what it was writing may be torn.
  void driver_dies() {
    tell("-- the driver dies");
    replay_is_the_same();
    dies_before_ = 0;
    held_up_ = false;
    unheard_.clear();
    if (!journal_.empty() && dice_.uniform() < 0.5) journal_ += R"({"sequence":99,"at_s":)";
    core_.reset();
    ++life_;
    cluster_.driver_gone();
    time_.after(0.5 + dice_.exponential(4), [this] { start_driver(); });
  }

  void replay_is_the_same() {
    if (dies_in_the_middle_) return;  // commands of this input were not carried out
    Ledger again;
    for (const JournalEntry& entry : journal_from_text(journal_, "journal").entries)
      again.apply(entry, options_.policy);
    if (!(again == core_->ledger())) broken("the journal gives another state than the driver had");
  }

  void died(const std::string& node) {
    feed(NodeDied{.node = node, .reachable = true, .text = node + ": its daemon died"});
  }
  void lost(const std::string& node) { feed(ConnectionLost{node}); }

  void run(const ToNode& command) { cluster_.deliver(command.node, command.message); }
  // As in DriverService: the node is told why, and ends its ranks and itself.
  void run(const Refuse& command) {
    cluster_.deliver(command.node, Release{.reason = command.reason, .evicted = true});
  }
  void run(const CloseConnection& command) { cluster_.cut(command.node); }
  void run(const WriteJournal& command) {
    journal_ += to_line(command.entry);
    ++result_.journal_entries;
    if (const auto* began = std::get_if<GenerationBegan>(&command.entry.body)) {
      if (began->generation <= newest_generation_)
        broken(fmt::format("generation {} begins after {}", began->generation, newest_generation_));
      newest_generation_ = began->generation;
      ++result_.generations;
    }
  }
  void run(const WriteSkip& command) {
    plan_.skipped = command.ranges;  // the contents of skip.json for a driver whose journal is lost
    std::vector<data::SampleRange> all = command.ranges;
    if (command.probe) all.push_back(*command.probe);
    cluster_.skip(joined(std::move(all)));
  }
  void run(const WriteBlocked&) {}
  void run(const Emit& command) {
    if (const auto* state = std::get_if<observe::DriverState>(&command.body))
      tell(fmt::format("{} ({})", state->state, state->reason));
    const auto* incident = std::get_if<observe::IncidentReport>(&command.body);
    if (incident == nullptr) return;
    ++result_.incidents;
    ++result_.incidents_by_class[incident->fault];
    result_.lost_steps += incident->lost_steps;
    result_.detected_s[incident->fault].push_back(incident->detected_milliseconds / 1e3);
    if (incident->recovered_milliseconds)
      result_.recovered_s[incident->fault].push_back(*incident->recovered_milliseconds / 1e3);
    if (single_ && incident->rank == *single_) {
      ++result_.named;
      single_.reset();
    }
  }
  void run(const StartNode& command) { cluster_.start_daemon(command.node); }
  void run(const RequestNode&) {}
  void run(const ReleaseNode&) {}
  void run(const AnalyseHang& command) {
    const int64_t rank = cluster_.hanging_rank();
    time_.after(dice_.about(0.1), [this, generation = command.generation, rank] {
      if (dice_.uniform() < 0.1) return;  // no answer
      HangFound found{.generation = generation};
      if (rank >= 0) found.suspects = {rank};
      feed(found);
    });
  }
  void run(const Reply&) {}
  void run(const Say& command) { tell(command.text); }
  void run(const Finish& command) {
    over_ = true;
    result_.code = command.code;
    result_.text = command.text;
  }

  // ---- what goes wrong

  void next_fault() {
    if (options_.fault_every_s <= 0) return;
    time_.after(dice_.exponential(options_.fault_every_s), [this] {
      if (over_) return;
      inject();
      next_fault();
    });
  }

  // Another fault or the end came before this one was resolved.
  void forget_single() {
    if (single_) --result_.single;
    single_.reset();
  }

  Injected drawn() {
    double left = dice_.uniform() * std::accumulate(options_.shares.begin(), options_.shares.end(), 0.0);
    for (int kind = 0; kind < kInjectedKinds; ++kind) {
      left -= options_.shares[static_cast<size_t>(kind)];
      if (left < 0) return static_cast<Injected>(kind);
    }
    return Injected::kKill;
  }

  void inject() {
    const Injected kind = drawn();
    const bool quiet = core_ != nullptr && core_->state() == State::kTrain && cluster_.training() &&
                       time_.now_s > quiet_after_s_;
    if (!injected(kind)) return;
    tell(fmt::format("-- {}{}", name_of(kind), target_ ? fmt::format(" (rank {})", *target_) : ""));
    ++result_.injected;
    ++result_.injected_by_kind[std::string(name_of(kind))];
    forget_single();
    const bool of_one = kind == Injected::kKill || kind == Injected::kCrash || kind == Injected::kHang ||
                        kind == Injected::kStop;
    if (of_one && quiet && target_) {
      single_ = target_;
      ++result_.single;
    }
    quiet_after_s_ = time_.now_s + 40;  // another fault before then would mix the two incidents
  }

  bool injected(Injected kind) {
    const std::optional<int64_t> rank = target_ = cluster_.any_rank(dice_);
    const std::vector<std::string> nodes = cluster_.nodes();
    const std::string node = nodes[static_cast<size_t>(dice_.below(static_cast<int64_t>(nodes.size())))];
    switch (kind) {
      case Injected::kKill:
        return rank && cluster_.end_rank(*rank, 137, false);
      case Injected::kCrash:
        return rank && cluster_.end_rank(*rank, 139, false);
      case Injected::kOutOfMemory:
        return rank && cluster_.end_rank(*rank, 137, true);
      case Injected::kHang:
        return rank && cluster_.hang(*rank, false);
      case Injected::kStop:
        return rank && cluster_.hang(*rank, true);
      case Injected::kDevice:
        return rank && cluster_.end_rank(*rank, 71, false);
      case Injected::kLostPeer:
        return cluster_.end_all(69);
      case Injected::kDaemon:
        return cluster_.kill_daemon(node);
      case Injected::kNode:
        return cluster_.lose_node(node, 20 + dice_.exponential(60));
      case Injected::kPartition:
        return cluster_.partition(node, dice_.exponential(12));
      case Injected::kDriver:
        return kill_driver();
      case Injected::kSlow:
        return cluster_.report(node, {.kind = "slow", .text = "slower than its peers"});
      case Injected::kTwo:
        return two();
      case Injected::kDuringRecovery:
        return during_recovery();
      case Injected::kSupervisedDaemon:
        return cluster_.kill_daemon(node) && cluster_.supervise(node);
      case Injected::kHeldUp:
        return hold_up(dice_.exponential(15));
      case Injected::kLostJournal:
        return lose_journal();
    }
    return false;
  }

  // Immediately, or in the middle of its reaction to the next input.
  bool kill_driver() {
    if (core_ == nullptr) return false;
    if (dice_.uniform() < 0.5) {
      dies_before_ = 1 + dice_.below(12);
      return true;
    }
    dies_in_the_middle_ = false;
    driver_dies();
    return true;
  }

  // The driver's process stands still: what comes meanwhile is handled afterwards, in its order.
  bool hold_up(double for_s) {
    if (core_ == nullptr || held_up_) return false;
    held_up_ = true;
    time_.after(for_s, [this, life = life_] {
      if (life != life_) return;  // it was killed
      held_up_ = false;
      for (const Input& input : std::exchange(unheard_, {})) feed(input);
      tick(life);
    });
    return true;
  }

  // The next driver only knows what the last one's status.json said, and what nodes report.
  bool lose_journal() {
    if (core_ == nullptr || dies_before_ > 0) return false;
    dies_in_the_middle_ = false;
    plan_.begun = core_->status(time_.now_s).at("newest_generation").get<int64_t>();
    driver_dies();
    journal_.clear();
    return true;
  }

  bool two() {
    const std::optional<int64_t> first = cluster_.any_rank(dice_);
    if (!first) return false;
    const std::optional<int64_t> second = cluster_.any_rank(dice_, cluster_.node_of_rank(*first));
    cluster_.end_rank(*first, 137, false);
    if (second) cluster_.end_rank(*second, 139, false);
    return true;
  }

  bool during_recovery() {
    const std::optional<int64_t> first = cluster_.any_rank(dice_);
    if (!first || !cluster_.end_rank(*first, 137, false)) return false;
    time_.after(1 + dice_.exponential(2), [this] {
      if (const std::optional<int64_t> second = cluster_.any_rank(dice_))
        cluster_.end_rank(*second, 139, false);
    });
    return true;
  }

  // ---- at the end

  void settle() {
    forget_single();
    result_.seconds = time_.now_s - begin_s_;
    if (core_ != nullptr) {
      dies_in_the_middle_ = false;
      replay_is_the_same();
      result_.restarts = core_->ledger().restarts;
      result_.productive_s = core_->ledger().productive_s;
    }
    result_.finished = over_ && result_.code == ExitCode::kDone;
    if (over_ && !documented(result_.code))
      broken(fmt::format("ended with {}: {}", static_cast<int>(result_.code), result_.text));
    // By then every node has been told, or has returned and been told.
    const double end_s = time_.now_s + 200;
    cluster_.driver_gone();
    while (time_.now_s < end_s && cluster_.living_ranks() > 0 && time_.step()) {
    }
    if (cluster_.living_ranks() > 0)
      broken(fmt::format("{} ranks live on after the end", cluster_.living_ranks()));
    if (!result_.finished) return;
    if (cluster_.step() != options_.steps)
      broken(fmt::format("done after {} of {} steps", cluster_.step(), options_.steps));
    uint64_t hash = 0;
    for (int64_t step = 0; step < options_.steps; ++step)
      hash = hash_after_step(hash, step, core_->ledger().skipped);
    if (hash != cluster_.samples_hash())
      broken("the run was trained on other samples than an uninterrupted one");
    if (cluster_.deadly) {
      const auto& skipped = core_->ledger().skipped;
      const bool exact = skipped.size() == 1 && skipped[0].begin == *cluster_.deadly &&
                         skipped[0].end == *cluster_.deadly + 1;
      if (!exact)
        broken(fmt::format(
            "sample {} is deadly, and {} ranges are passed over{}", *cluster_.deadly, skipped.size(),
            skipped.empty() ? "" : fmt::format(", the first [{}, {})", skipped[0].begin, skipped[0].end)));
    }
  }

  SimulationOptions options_;
  SimulationResult result_;
  VirtualTime time_;
  Dice dice_;
  VirtualCluster cluster_;
  RunPlan plan_;
  std::unique_ptr<DriverCore> core_;
  std::string journal_;
  int64_t life_ = 0, dies_before_ = 0, newest_generation_ = 0, committed_ = -1;
  bool over_ = false, dies_in_the_middle_ = false, held_up_ = false;
  std::vector<Input> unheard_;  // inputs that a held-up driver has not handled yet
  double begin_s_ = 0, quiet_after_s_ = 0;
  std::optional<int64_t> single_, target_;
};

}  // namespace

std::string_view name_of(Injected kind) { return kInjectedNames[static_cast<size_t>(kind)]; }

SimulationResult simulate(const SimulationOptions& options) { return Playing(options).play(); }

}  // namespace longhaul::control
