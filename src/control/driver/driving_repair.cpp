#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/text/text.h"
#include "control/driver/driving.h"
#include "control/rank_placement.h"

namespace longhaul::control {

void Driving::start_checks(const std::string& suite, double limit_s, const std::vector<std::string>& names) {
  std::vector<std::string> peers;
  for (const std::string& name : names) peers.push_back(nodes_.at(name).hello.address);
  ++checks_;
  for (const std::string& name : names) {
    Node& node = nodes_.at(name);
    node.check = checks_;
    node.results.reset();
    to(name, RunChecks{.id = checks_, .suite = suite, .limit_s = limit_s, .peers = peers});
  }
}

// The nodes that gave no answer, that failed a check, or whose bits differ from those of most nodes.
std::vector<std::string> Driving::failed_checks(const std::vector<std::string>& names) const {
  std::map<std::string, std::map<std::string, int64_t>> signatures;  // by check
  std::map<std::string, int64_t> voters;
  for (const std::string& name : names) {
    const Node& node = nodes_.at(name);
    if (!node.results) continue;
    for (const CheckResult& check : node.results->checks) {
      if (check.signature.empty()) continue;
      ++signatures[check.name][check.signature];
      ++voters[check.name];
    }
  }
  std::vector<std::string> failed;
  for (const std::string& name : names) {
    const Node& node = nodes_.at(name);
    const auto bad = [&](const CheckResult& check) {
      if (!check.passed) return true;
      if (check.signature.empty()) return false;
      const auto& votes = signatures.at(check.name);
      const auto most = std::ranges::max_element(votes, {}, [](const auto& vote) { return vote.second; });
      return most->first != check.signature && 2 * most->second > voters.at(check.name);
    };
    if (!node.results || std::ranges::any_of(node.results->checks, bad)) failed.push_back(name);
  }
  return failed;
}

namespace {

std::string why_failed(const std::optional<CheckResults>& results) {
  if (!results) return "its checks did not end in time";
  for (const CheckResult& check : results->checks) {
    if (!check.passed)
      return fmt::format("check {} failed: {}", check.name,
                         check.text.empty()
                             ? fmt::format("{:.4g} {}, limit {:.4g}", check.measured, check.unit, check.limit)
                             : check.text);
  }
  return "its bits are not those of the other nodes";
}

}  // namespace

// The suspected nodes are checked when their ranks are gone.
void Driving::diagnose() {
  const std::vector<std::string> names(checking_.begin(), checking_.end());
  const auto there = [&](const std::string& name) { return nodes_[name].connected; };
  std::vector<std::string> present;
  std::ranges::copy_if(names, std::back_inserter(present), there);
  const bool begun =
      std::ranges::any_of(present, [&](const std::string& name) { return nodes_[name].check != 0; });
  if (!begun && !present.empty()) {
    if (!all_ended() && in_state_s() <= policy_.gone_s) return;
    return start_checks("stop_time", policy_.stop_time_s - 30, present);
  }
  const bool all = std::ranges::all_of(present, [&](const std::string& name) {
    return nodes_[name].results.has_value() || nodes_[name].check == 0;
  });
  if (!all && in_state_s() <= policy_.gone_s + policy_.stop_time_s) return;
  const std::vector<std::string> failed = failed_checks(present);
  for (const std::string& name : failed) evicting_.insert(name);
  for (const int64_t id : open_incidents_) {
    const IncidentRecord* incident = ledger_.open_incident(id);
    if (incident == nullptr || !checking_.contains(incident->node()) || !incident->diagnosed) continue;
    IncidentDiagnosed diagnosed = *incident->diagnosed;
    const bool bad = evicting_.contains(diagnosed.node);
    diagnosed.evidence = bad ? why_failed(nodes_[diagnosed.node].results) : "all checks of its node passed";
    diagnosed.action = std::string(name_of(bad ? Action::kEvict : Action::kRestart));
    diagnosed.diagnosed_milliseconds = (now_s_ - incident->noticed_s()) * 1e3;
    record(std::move(diagnosed));
  }
  for (const std::string& name : names) nodes_[name].check = 0;
  checking_.clear();
  go(State::kRepair,
     failed.empty() ? "all checks passed" : fmt::format("{} failed checks", fmt::join(failed, ", ")));
}

// Ranks end first, then nodes that should leave; then comes the pause.
void Driving::repair() {
  if (!all_ended()) {
    const double patience_s = policy_.gone_s + (stopping_ == Stopping::kSaving ? policy_.save_s : 0);
    if (in_state_s() <= patience_s) return;
    for (const auto& [number, rank] : ranks_) {
      if (rank.state != Rank::State::kEnded && rank.state != Rank::State::kLost) evicting_.insert(rank.node);
    }
    for (const std::string& name : evicting_)
      say(fmt::format("ranks of {} could not be ended in {:.0f} s", name, patience_s));
    for (auto& [number, rank] : ranks_) {
      if (rank.state != Rank::State::kEnded) rank.state = Rank::State::kLost;
    }
  }
  const auto finished = [](const auto& rank) {
    return rank.second.exited && rank.second.exited->status == 0;
  };
  if (planned_ && stopping_ == Stopping::kSaving && !ranks_.empty() && std::ranges::all_of(ranks_, finished))
    return finish(State::kDone, ExitCode::kDone, "all steps are done");
  expecting_nodes_ =
      expecting_nodes_ || !restarting_.empty() || (!evicting_.empty() && policy_.replacement_s > 0);
  for (const std::string& name : std::exchange(evicting_, {})) {
    evict(name, ledger_.nodes.at(name).reason.empty() ? ledger_.state_reason : ledger_.nodes.at(name).reason);
    if (policy_.replacement_s <= 0) continue;
    RequestNode request;
    for (const auto& [known, record] : ledger_.nodes) {
      if (record.state == "evicted" && record.until_s > now_s_) request.exclude.push_back(record.host);
    }
    commands_.push_back(std::move(request));
  }
  for (const std::string& name : std::exchange(restarting_, {})) commands_.push_back(StartNode{name});
  go(State::kRendezvous, "looking for nodes");
}

// Whether nodes may still connect that are not here: restarted, requested, or away for a moment.
double Driving::waits_for_nodes_s() const {
  if (fresh_) return policy_.join_s;
  double wait_s = expecting_nodes_ ? std::max(policy_.rejoin_s, policy_.replacement_s) : 0;
  for (const auto& [name, node] : nodes_) {
    const auto record = ledger_.nodes.find(name);
    const bool may_come = !node.connected && record != ledger_.nodes.end() &&
                          (record->second.state == "active" || record->second.state == "spare");
    if (may_come) wait_s = std::max(wait_s, policy_.node_silent_s);
  }
  return wait_s;
}

// The nodes that are no longer used, for the message that there are too few nodes.
std::string Driving::why_nodes_are_missing() const {
  std::string why;
  for (const auto& [name, record] : ledger_.nodes) {
    if (record.state == "evicted") why += fmt::format("; {} is not used: {}", name, record.reason);
  }
  return brief(why, 1000);
}

void Driving::rendezvous() {
  if (now_s_ < not_before_s_) return;
  int64_t regular = 0;  // those that have connected, whatever their state is now
  for (const auto& [name, record] : ledger_.nodes)
    regular += nodes_.contains(name) && !nodes_.at(name).hello.spare ? 1 : 0;
  const bool spares = !fresh_ || regular >= plan_.nodes || in_state_s() > policy_.join_s;
  const std::vector<std::string> names = usable_nodes(spares);
  // A node that was away may have ranks of an old generation: these are ended first.
  for (const std::string& name : names) {
    if (nodes_.at(name).running.empty()) continue;
    if (in_state_s() > policy_.gone_s)
      evict(name, fmt::format("its ranks could not be ended in {:.0f} s", policy_.gone_s));
    return;
  }
  const Width* width = widest(slots_of(names));
  if (width != &plan_.widths.front()) {
    if (in_state_s() <= waits_for_nodes_s()) return;
    if (width == nullptr) {
      if (in_state_s() <= policy_.join_s) return;
      return finish(
          State::kFailed, ExitCode::kCommunication,
          fmt::format("nodes for {} ranks did not come in {:.0f} s: {} slots are there{}",
                      plan_.widths.back().ranks, policy_.join_s, slots_of(names), why_nodes_are_missing()));
    }
  }
  std::vector<Place> places;
  for (const std::string& name : names) places.push_back({name, nodes_.at(name).hello.slots});
  std::optional<std::vector<NodeRanks>> placement =
      place_ranks(width->ranks, places, fresh_ ? std::vector<NodeRanks>() : ledger_.placement);
  LONGHAUL_ASSERT(placement.has_value(), "{} ranks fit on {} slots and cannot be placed", width->ranks,
                  slots_of(names));
  const auto unchecked = [&](const std::string& name) {
    const Node& node = nodes_.at(name);
    return !node.checked && (policy_.preflight || node.returned);
  };
  if (std::ranges::any_of(*placement, [&](const NodeRanks& node) { return unchecked(node.node); })) {
    std::vector<std::string> checked = usable_nodes(true);
    std::erase_if(checked, std::not_fn(unchecked));
    start_checks("preflight", policy_.check_s - 15, checked);
    return go(State::kCheck, fmt::format("checking {}", fmt::join(checked, ", ")));
  }
  if (width->ranks < plan_.ranks())
    say(fmt::format("there is room for {} of {} ranks: going on with fewer replicas, the same batch",
                    width->ranks, plan_.ranks()));
  begin_generation(*width, std::move(*placement));
}

void Driving::check() {
  std::vector<std::string> checked;
  for (const auto& [name, node] : nodes_) {
    if (node.check != 0 && usable(name)) checked.push_back(name);
  }
  const bool all = std::ranges::all_of(
      checked, [&](const std::string& name) { return nodes_.at(name).results.has_value(); });
  if (!all && in_state_s() <= policy_.check_s) return;
  const std::vector<std::string> failed = failed_checks(checked);
  for (const std::string& name : checked) {
    nodes_.at(name).check = 0;
    nodes_.at(name).checked = true;
  }
  for (const std::string& name : failed) {
    Fault seen{.source = Fault::Source::kCheck,
               .node = name,
               .text = fmt::format("{}: {}", name, why_failed(nodes_.at(name).results))};
    Verdict verdict = classify(seen, ledger_, policy_, now_s_);
    open_incidents_.push_back(open(seen, verdict, false));
    evict(name, seen.text);
  }
  go(State::kRendezvous,
     failed.empty() ? "all checks passed" : fmt::format("{} failed checks", fmt::join(failed, ", ")));
}

void Driving::begin_generation(const Width& width, std::vector<NodeRanks> placement) {
  const int64_t generation = std::max(ledger_.generation, newest_seen_) + 1;
  const bool planned = planned_;
  width_ = &width;
  record(GenerationBegan{
      .generation = generation, .world = width.ranks, .placement = placement, .planned = planned});
  fresh_ = false;
  ranks_.clear();
  for (const NodeRanks& node : ledger_.placement) {
    for (const int64_t rank : node.ranks) ranks_[rank].node = node.node;
  }
  for (const auto& [name, node] : nodes_) {
    if (!usable(name)) continue;
    const NodeChanged& known = ledger_.nodes.at(name);
    set_node(name, placed(name) ? "active" : "spare", known.leaving ? known.reason : "", known.leaving);
  }
  stopping_ = Stopping::kNo;
  taken_up_ = planned_ = expecting_nodes_ = first_step_done_ = at_checkpoint_ = false;
  wide_since_s_ = 0;
  last_step_ = -1;
  held_up_s_ = 0;
  task_s_ = 0;
  excused_until_s_ = -1;
  generation_open_ = true;
  time_outs_ = ProgressTimeOuts(policy_, ledger_.longest_s);
  const SearchChanged& search = ledger_.search;
  if (!ledger_.skipped.empty() || search.active || wrote_skip_) {
    WriteSkip skip{.ranges = joined(ledger_.skipped),
                   .reason = fmt::format("{}", fmt::join(ledger_.skip_reasons, "; ")),
                   .probe = {}};
    if (search.active && search.skipped_begin < search.skipped_end)
      skip.probe = {search.skipped_begin, search.skipped_end};
    commands_.push_back(std::move(skip));
    wrote_skip_ = true;
  }
  const NodeHello& first = nodes_.at(placement.front().node).hello;
  StartRanks start{.generation = generation,
                   .world = width.ranks,
                   .nodes = static_cast<int64_t>(placement.size()),
                   .master_address = first.address,
                   .master_port = first.free_port,
                   .overrides = width.overrides,
                   .probe = search.active};
  for (const NodeRanks& node : placement) {
    start.ranks = node.ranks;
    to(node.node, start);
    ++start.node_rank;
  }
  go(State::kLoad, fmt::format("generation {}: {} ranks on {} node{}", generation, width.ranks,
                               placement.size(), placement.size() == 1 ? "" : "s"));
}

}  // namespace longhaul::control
