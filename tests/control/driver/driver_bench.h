// What the driver's tests stand on: a DriverCore that is told one thing after the other, by hand.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "control/driver/batch_search.h"
#include "control/driver/driver_core.h"
#include "control/ledger.h"

namespace longhaul::control {

// A driver, and daemons that do as they are told: ranks run, take steps when asked to, and end when stopped.
class Bench {
 public:
  explicit Bench(int64_t nodes = 2, int64_t spares = 0) : spares_(spares) {
    plan.run = "r";
    plan.version = "v";
    plan.nodes = nodes;
    plan.spares = spares;
    plan.steps = 100;
    for (int64_t n = nodes; n > 0; --n)
      plan.widths.push_back({.ranks = 2 * n, .overrides = {}, .mesh = {{"dp", 2 * n}}});
  }

  void begin(std::vector<JournalEntry> entries = {}) {
    core.emplace(plan, policy, std::move(entries));
    send(Tick{});
  }
  void join_all() {
    for (int64_t n = 0; n < plan.nodes + spares_; ++n) join(fmt::format("node-{}", n), n >= plan.nodes);
  }
  NodeHello hello(const std::string& node, bool spare = false) {
    NodeHello hello{.version = "v",
                    .run = "r",
                    .node = node,
                    .host = "host of " + node,
                    .boot_id = "1",
                    .address = "address of " + node,
                    .pid = 7};
    hello.slots = 2;
    hello.spare = spare;
    hello.free_port = 4000;
    return hello;
  }
  void join(const std::string& node, bool spare = false) { send(FromNode{node, hello(node, spare)}); }

  // Everybody has done `step` steps, of which those after `resumed` in this generation.
  void beats(int64_t step, int64_t resumed, const std::string& phase = "forward", double age_s = 0) {
    for (const auto& [node, ranks] : running) {
      NodeBeat beat{.generation = core->generation(), .free_port = 4000, .running = {}, .ended = {}};
      for (const int64_t rank : ranks) {
        RankBeat of_rank{.rank = rank,
                         .generation = core->generation(),
                         .pid = 100 + rank,
                         .progress_age_s = age_s,
                         .step = step,
                         .resumed_step = resumed};
        of_rank.phase = phase;
        beat.running.push_back(of_rank);
      }
      send(FromNode{node, beat});
    }
  }
  void train(int64_t from, int64_t to) {
    for (int64_t step = from; step <= to; ++step) {
      beats(step, from);
      wait(1);
    }
  }
  void ends(int64_t rank, int64_t status, const std::string& words = "") {
    for (auto& [node, ranks] : running) {
      if (std::erase(ranks, rank) == 0) continue;
      RankExited exited{.rank = rank,
                        .generation = core->generation(),
                        .status = status,
                        .age_s = 0.01,
                        .last_words = words};
      if (status == 139) exited.stack = words;  // a crash: where it was
      send(FromNode{node, std::move(exited)});
      return;
    }
    FAIL() << "rank " << rank << " does not run";
  }
  // In small steps, as a shell would.
  void wait(double seconds) {
    const double end_s = now_s + seconds;
    while (now_s < end_s - 1e-9) {
      now_s = std::min(end_s, now_s + 0.1);
      send(Tick{});
    }
  }

  void send(const Input& input) {
    for (const Command& command : core->on(input, now_s)) {
      if (const auto* entry = std::get_if<WriteJournal>(&command)) journal.push_back(entry->entry);
      if (const auto* done = std::get_if<Finish>(&command)) finish = *done;
      if (const auto* reply = std::get_if<Reply>(&command)) replies.push_back(reply->answer);
      if (const auto* refuse = std::get_if<Refuse>(&command)) refusals.push_back(refuse->reason);
      if (const auto* emit = std::get_if<Emit>(&command)) {
        if (const auto* incident = std::get_if<observe::IncidentReport>(&emit->body))
          incidents.push_back(*incident);
      }
      if (const auto* skip = std::get_if<WriteSkip>(&command)) {
        std::vector<data::SampleRange> all = skip->ranges;
        if (skip->probe) all.push_back(*skip->probe);
        skips.push_back(joined(std::move(all)));
      }
      if (const auto* analyse = std::get_if<AnalyseHang>(&command)) analysis = *analyse;
      if (const auto* close = std::get_if<CloseConnection>(&command)) closed.push_back(close->node);
      if (const auto* start = std::get_if<StartNode>(&command)) started_nodes.push_back(start->node);
      if (const auto* to = std::get_if<ToNode>(&command)) obey(to->node, to->message);
    }
  }

  RunPlan plan;
  Policy policy;
  double now_s = 5000;
  std::optional<DriverCore> core;
  std::vector<JournalEntry> journal;
  std::optional<Finish> finish;
  std::vector<Answer> replies;
  std::vector<std::string> refusals, started_nodes, closed;
  std::vector<observe::IncidentReport> incidents;
  std::vector<std::vector<data::SampleRange>> skips;
  std::map<std::string, std::vector<int64_t>> running;  // by node
  std::vector<StartRanks> starts;
  std::vector<std::pair<std::string, StopRanks>> stops;
  std::vector<std::string> released, checked, gathered;
  std::optional<AnalyseHang> analysis;  // that was asked for last
  bool stopped_ranks_end = true;

 private:
  void obey(const std::string& node, const DriverMessage& message) {
    if (const auto* start = std::get_if<StartRanks>(&message)) {
      starts.push_back(*start);
      running[node] = start->ranks;
    }
    if (const auto* stop = std::get_if<StopRanks>(&message)) {
      stops.emplace_back(node, *stop);
      if (!stopped_ranks_end) return;
      for (const int64_t rank : std::exchange(running[node], {})) {
        send(FromNode{node, RankExited{.rank = rank,
                                       .generation = core->generation(),
                                       .status = stop->save ? 74 : 137,
                                       .stopped = true}});
      }
    }
    if (std::holds_alternative<Release>(message)) released.push_back(node);
    if (std::holds_alternative<GatherEvidence>(message)) gathered.push_back(node);
    if (const auto* checks = std::get_if<RunChecks>(&message)) {
      checked.push_back(node);
      last_checks = *checks;
    }
  }
  int64_t spares_;

 public:
  RunChecks last_checks;
};

inline std::string ranks_text(const std::map<std::string, std::vector<int64_t>>& running) {
  std::string text;
  for (const auto& [node, ranks] : running) {
    if (!ranks.empty()) text += fmt::format("{}:{} ", node, fmt::join(ranks, ","));
  }
  return text;
}

class Driver : public ::testing::Test {
 protected:
  // A run of two nodes that has done ten steps.
  void start(int64_t nodes = 2, int64_t spares = 0) {
    bench.emplace(nodes, spares);
    bench->begin();
    bench->join_all();
    bench->train(0, 10);
    ASSERT_EQ(bench->core->state(), State::kTrain);
  }
  std::optional<Bench> bench;
};

}  // namespace longhaul::control
