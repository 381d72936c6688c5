#include "control/checks/node_comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/statistics.h"

namespace longhaul::control {
namespace {

struct Held {
  const SelfCheckReport* node;
  std::string value;
};

std::string shown(const std::string& value) { return value.empty() ? "nothing" : value; }

void compare_values(const std::string& check, const std::string& name, const std::vector<Held>& all,
                    std::vector<NodeFinding>& findings) {
  std::map<std::string, size_t> votes;
  for (const Held& held : all) ++votes[held.value];
  if (votes.size() < 2) return;
  const auto most = std::max_element(votes.begin(), votes.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  const bool majority = 2 * most->second > all.size();
  for (const Held& held : all) {
    if (majority && held.value == most->first) continue;
    findings.push_back({.node = held.node->node,
                        .check = check,
                        .found = name + " " + shown(held.value),
                        .limit = majority ? fmt::format("{} {}, as {} of {} nodes have", name,
                                                        shown(most->first), most->second, all.size())
                                          : "one value on all nodes; no value is that of more than half"});
  }
}

struct Rated {
  const SelfCheckReport* node;
  double rate;
};

void compare_rates(const std::string& check, const std::string& name, const std::vector<Rated>& all,
                   const Limits& limits, std::vector<NodeFinding>& findings) {
  if (all.size() < 3) return;
  std::set<std::string> machines;  // several nodes on one machine slow each other down
  for (const Rated& rated : all) {
    if (!rated.node->boot.empty() && !machines.insert(rated.node->boot).second) return;
  }
  std::vector<double> rates;
  double mean = 0, squares = 0;
  for (const Rated& rated : all)
    rates.push_back(rated.rate), mean += rated.rate / static_cast<double>(all.size());
  for (const double rate : rates) squares += (rate - mean) * (rate - mean) / static_cast<double>(all.size());
  const double middle = median(rates);
  for (const Rated& rated : all) {
    const bool failed = rated.rate < limits["failed_share_of_median"] * middle;
    const bool slow =
        rated.rate < limits["share_of_median"] * middle && rated.rate < mean - std::sqrt(squares);
    if (!failed && !slow) continue;
    findings.push_back(
        {.node = rated.node->node,
         .check = check,
         .status = failed ? CheckStatus::kFailed : CheckStatus::kSlow,
         .found = fmt::format("{} {:.4g}", name, rated.rate),
         .limit = fmt::format("{:.0f} % of the median {:.4g} of {} nodes",
                              100 * limits[failed ? "failed_share_of_median" : "share_of_median"], middle,
                              all.size())});
  }
}

}  // namespace

std::vector<NodeFinding> compare_nodes(const std::vector<SelfCheckReport>& nodes, const Limits& limits) {
  // Keyed by check, name and, where it matters, model.
  using Key = std::array<std::string, 3>;
  std::map<Key, std::vector<Held>> held;
  std::map<Key, std::vector<Rated>> rated;
  for (const SelfCheckReport& node : nodes) {
    for (const CheckFinding& finding : node.results) {
      for (const Fingerprint& print : finding.fingerprints) {
        held[{finding.name, print.name, print.of_model ? node.model : ""}].push_back({&node, print.value});
      }
      for (const auto& [name, value] : finding.values) {
        if (name.ends_with("_per_second")) rated[{finding.name, name, node.model}].push_back({&node, value});
      }
    }
  }
  std::vector<NodeFinding> findings;
  for (const auto& [key, all] : held) compare_values(key[0], key[1], all, findings);
  for (const auto& [key, all] : rated) compare_rates(key[0], key[1], all, limits, findings);
  return findings;
}

int64_t meetings(int64_t nodes) { return nodes < 2 ? 0 : nodes == 2 ? 1 : nodes % 2 == 0 ? 2 : 3; }

std::vector<std::pair<int64_t, int64_t>> pairs_of_round(int64_t nodes, int64_t round) {
  // One node stays and the others move on by one place per round around a circle; with an odd number, the
  // partner of the missing node rests.
  const int64_t seats = nodes + nodes % 2;
  std::vector<std::pair<int64_t, int64_t>> pairs;
  if (nodes < 2) return pairs;
  const auto at = [&](int64_t seat) { return seat == 0 ? seats - 1 : (seat - 1 + round) % (seats - 1); };
  for (int64_t seat = 0; seat < seats / 2; ++seat) {
    const int64_t a = at(seat), b = at(seats - 1 - seat);
    if (a < nodes && b < nodes) pairs.emplace_back(std::min(a, b), std::max(a, b));
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

std::vector<NodeFinding> judge_pairs(const std::vector<PairResult>& pairs,
                                     const std::vector<std::string>& nodes, const Limits& limits) {
  std::vector<double> rates;
  for (const PairResult& pair : pairs) rates.push_back(pair.bytes_per_second);
  if (pairs.empty()) return {};
  const double least = limits["failed_share_of_median"] * median(rates);
  const auto bad = [&](const PairResult& pair) {
    return !pair.correct || (!pair.one_machine && pair.bytes_per_second < least);
  };
  std::map<int64_t, int64_t> met, met_badly;
  for (const PairResult& pair : pairs) {
    for (const int64_t node : {pair.a, pair.b}) ++met[node], met_badly[node] += bad(pair);
  }
  const auto always_bad = [&](int64_t node) { return met[node] >= 2 && met_badly[node] == met[node]; };
  const auto text = [&](const PairResult& pair) {
    return pair.correct ? fmt::format("{:.0f} MB/s between {} and {}", pair.bytes_per_second / 1e6,
                                      nodes[static_cast<size_t>(pair.a)], nodes[static_cast<size_t>(pair.b)])
                        : fmt::format("wrong bytes between {} and {}", nodes[static_cast<size_t>(pair.a)],
                                      nodes[static_cast<size_t>(pair.b)]);
  };
  const std::string limit = fmt::format("what was sent, at {:.0f} MB/s", least / 1e6);
  std::vector<NodeFinding> findings;
  std::set<int64_t> named;
  for (const PairResult& pair : pairs) {
    if (!bad(pair)) continue;
    for (const int64_t node : {pair.a, pair.b}) {
      const int64_t partner = node == pair.a ? pair.b : pair.a;
      // Both always bad, or neither: nothing tells which of the two it is.
      const bool found = always_bad(node) || !always_bad(partner);
      if (found && named.insert(node).second) {
        findings.push_back({.node = nodes[static_cast<size_t>(node)],
                            .check = "pairs",
                            .found = text(pair),
                            .limit = limit});
      }
    }
  }
  return findings;
}

bool NodesReport::passed() const {
  return std::none_of(findings.begin(), findings.end(),
                      [](const NodeFinding& finding) { return finding.status == CheckStatus::kFailed; });
}

std::vector<std::string> NodesReport::failed_nodes() const {
  std::vector<std::string> names;
  for (const NodeFinding& finding : findings) {
    const bool fresh = std::find(names.begin(), names.end(), finding.node) == names.end();
    if (finding.status == CheckStatus::kFailed && fresh) names.push_back(finding.node);
  }
  return names;
}

nlohmann::ordered_json NodesReport::to_json() const {
  auto all = nlohmann::ordered_json::array(), met = all, found = all;
  for (const SelfCheckReport& node : nodes) all.push_back(node.to_json());
  for (const PairResult& pair : pairs) {
    met.push_back({{"a", nodes[static_cast<size_t>(pair.a)].node},
                   {"b", nodes[static_cast<size_t>(pair.b)].node},
                   {"round", pair.round},
                   {"correct", pair.correct},
                   {"bytes_per_second", pair.bytes_per_second}});
  }
  for (const NodeFinding& finding : findings) {
    found.push_back({{"node", finding.node},
                     {"check", finding.check},
                     {"status", name_of(finding.status)},
                     {"found", finding.found},
                     {"expected", finding.limit}});
  }
  return {{"passed", passed()}, {"failed_nodes", failed_nodes()},         {"findings", found}, {"nodes", all},
          {"pairs", met},       {"clock_offset_seconds", clock_offsets_s}};
}

void judge(NodesReport& report, const Limits& limits) {
  report.findings.clear();
  std::vector<std::string> names;
  for (const SelfCheckReport& node : report.nodes) {
    names.push_back(node.node);
    for (const CheckFinding& finding : node.results) {
      if (finding.status != CheckStatus::kFailed && finding.status != CheckStatus::kSlow) continue;
      report.findings.push_back({.node = node.node,
                                 .check = finding.name,
                                 .status = finding.status,
                                 .found = finding.found,
                                 .limit = finding.limit});
    }
  }
  const auto add = [&](std::vector<NodeFinding> more) {
    report.findings.insert(report.findings.end(), more.begin(), more.end());
  };
  add(compare_nodes(report.nodes, limits));
  add(judge_pairs(report.pairs, names, limits));
  // Relative to the median of all, so that a first node whose clock is wrong is named, and not all others.
  if (report.clock_offsets_s.empty()) return;
  const double middle = median(report.clock_offsets_s), most = limits["clock_offset_seconds"];
  const bool two = report.clock_offsets_s.size() == 2;  // nobody knows which of the two is right
  for (size_t i = 0; i < report.clock_offsets_s.size(); ++i) {
    const double off = (two ? report.clock_offsets_s[1 - i] : middle) - report.clock_offsets_s[i];
    if (std::abs(off) <= most) continue;
    report.findings.push_back(
        {.node = names[i],
         .check = "clock",
         .found = fmt::format("its clock is {:.1f} s {}", std::abs(off), off > 0 ? "ahead" : "behind"),
         .limit = fmt::format("{:g} s from the other nodes'", most)});
  }
}

}  // namespace longhaul::control
