#include "comm/diagnose_nodes.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/machine/machine.h"
#include "base/net/network.h"
#include "base/text/json.h"
#include "comm/clock_offset.h"
#include "comm/world.h"

namespace longhaul::comm {
namespace {

constexpr int kPairTurns = 4;  // the first one is not timed
constexpr JsonRules kNodeRules{
    .code = ExitCode::kCommunication, .what = "malformed report of a node", .hint = ""};

// What a rank sends in a round: nobody else's, and no other round's.
Tensor pair_pattern(int64_t rank, int64_t round, int64_t words) {
  return (at::arange(words, at::kInt) * 2654435 + static_cast<int32_t>((rank + 1) * 40503 + round * 9973))
      .contiguous();
}

struct Met {
  bool correct = true;
  double bytes_per_second = 0;
};

Met meet(Communicator& world, int64_t partner, int64_t round, const DiagnoseOptions& options) {
  const int64_t words = std::max<int64_t>(options.pair_bytes / 4, 1);
  const Tensor own = pair_pattern(world.rank(), round, words), expected = pair_pattern(partner, round, words);
  if (options.plant) own[words / 2] += 1;
  const Tensor came = at::zeros_like(own);
  Met met;
  double best_s = 1e9;
  for (int turn = 0; turn < kPairTurns; ++turn) {
    came.zero_();
    const Stopwatch watch;
    world
        .exchange({send_to(partner, own), receive_from(partner, came)},
                  {.name = "pairs", .timeout = options.timeout})
        .wait();
    if (turn > 0) best_s = std::min(best_s, watch.seconds());
    met.correct = met.correct && at::equal(came, expected);
  }
  met.bytes_per_second = 2.0 * static_cast<double>(own.nbytes()) / best_s;
  return met;
}

// This machine's place among the addresses: the one that it has on its way to another. The port is made of
// all of them, so that all have the same.
Placement place_among(const std::vector<std::string>& peers) {
  const auto refuse = [](const std::string& found) {
    throw Error({.code = ExitCode::kCommunication,
                 .what = "no pairs of nodes",
                 .expected = "this machine's address once among those of its peers",
                 .found = found});
  };
  const std::set<std::string> different(peers.begin(), peers.end());
  if (different.size() < 2 || different.size() != peers.size())
    refuse("nodes that share an address stand for one machine");
  std::string all;
  std::vector<int64_t> own;
  for (size_t i = 0; i < peers.size(); ++i) {
    all += peers[i] + " ";
    const std::string& other = peers[i == 0 ? 1 : 0];
    if (own_address_towards(other) == peers[i]) own.push_back(static_cast<int64_t>(i));
  }
  if (own.size() != 1)
    refuse(fmt::format("{} of {} peers' addresses are this machine's", own.size(), peers.size()));
  return {.rank = own[0],
          .size = static_cast<int64_t>(peers.size()),
          .node_rank = own[0],
          .host = peers[0],
          .port = static_cast<uint16_t>(20000 + xxh3(all) % 20000),
          .engine = "peers"};
}

}  // namespace

std::vector<std::string> gather_texts(Communicator& world, const std::string& own, const std::string& name,
                                      Timeout timeout) {
  const Tensor sizes = at::zeros({world.size()}, at::kLong);
  world
      .all_gather(at::full({1}, static_cast<int64_t>(own.size()), at::kLong), sizes,
                  {.name = name + " sizes", .timeout = timeout})
      .wait();
  const auto* const size = sizes.const_data_ptr<int64_t>();
  const std::vector<int64_t> rows(size, size + world.size());
  int64_t total = 0;
  for (const int64_t row : rows) total += row;
  if (total == 0) return std::vector<std::string>(rows.size());
  const Tensor mine = at::empty({static_cast<int64_t>(own.size())}, at::kByte),
               all = at::empty({total}, at::kByte);
  if (!own.empty()) std::memcpy(mine.mutable_data_ptr(), own.data(), own.size());
  world.all_gather(mine, all, {.name = name, .timeout = timeout}, rows).wait();
  std::vector<std::string> texts;
  const char* at = static_cast<const char*>(all.const_data_ptr());
  for (const int64_t row : rows) {
    texts.emplace_back(at, static_cast<size_t>(row));
    at += row;
  }
  return texts;
}

std::vector<control::PairResult> measure_pairs(Communicator& world, const DiagnoseOptions& options) {
  const int64_t rounds = control::meetings(world.size());
  const Tensor own = at::zeros({1, std::max<int64_t>(rounds, 1), 2}, at::kDouble);
  for (int64_t round = 0; round < rounds; ++round) {
    world.barrier({.name = "round of pairs", .timeout = options.timeout}).wait();
    for (const auto& [a, b] : control::pairs_of_round(world.size(), round)) {
      if (world.rank() != a && world.rank() != b) continue;
      const Met met = meet(world, world.rank() == a ? b : a, round, options);
      own[0][round][0] = met.correct ? 1.0 : 0.0;
      own[0][round][1] = met.bytes_per_second;
    }
  }
  const Tensor all = at::zeros({world.size(), own.size(1), 2}, at::kDouble);
  world.all_gather(own, all, {.name = "pairs' results", .timeout = options.timeout}).wait();
  std::vector<control::PairResult> results;
  const auto held = all.accessor<double, 3>();
  for (int64_t round = 0; round < rounds; ++round) {
    for (const auto& [a, b] : control::pairs_of_round(world.size(), round)) {
      results.push_back({.a = a,
                         .b = b,
                         .round = round,
                         .correct = held[a][round][0] == 1 && held[b][round][0] == 1,
                         .bytes_per_second = std::min(held[a][round][1], held[b][round][1])});
    }
  }
  return results;
}

control::NodesReport diagnose_nodes(Communicator& world, const control::SelfCheckReport& own,
                                    const control::Limits& limits, const DiagnoseOptions& options) {
  control::NodesReport report;
  int64_t number = 0;
  for (const std::string& text :
       gather_texts(world, own.to_json().dump(), "reports of nodes", options.timeout)) {
    const std::string where = fmt::format("the report of rank {}", number++);
    report.nodes.push_back(control::SelfCheckReport::from_json(parse_json(text, where, kNodeRules), where));
  }
  report.pairs = measure_pairs(world, options);
  for (control::PairResult& pair : report.pairs) {
    pair.one_machine =
        report.nodes[static_cast<size_t>(pair.a)].boot == report.nodes[static_cast<size_t>(pair.b)].boot;
  }
  // Ranks of one machine have one wall clock; its boot names it.
  const ClockOffset clock =
      clock_offset(world, machine().boot, [] { return static_cast<int64_t>(wall_time_s() * 1e9); });
  const Tensor offsets = at::zeros({world.size()}, at::kDouble);
  world
      .all_gather(at::full({1}, static_cast<double>(clock.offset_ns) * 1e-9, at::kDouble), offsets,
                  {.name = "clocks' offsets", .timeout = options.timeout})
      .wait();
  report.clock_offsets_s.assign(offsets.const_data_ptr<double>(),
                                offsets.const_data_ptr<double>() + world.size());
  judge(report, limits);
  return report;
}

void diagnose_with_peers(control::SelfCheckReport& own, const std::vector<std::string>& peers,
                         const control::Limits& limits, const DiagnoseOptions& options) {
  control::CheckFinding pairs{.name = "pairs", .status = control::CheckStatus::kSkipped};
  const Stopwatch watch;
  try {
    const std::unique_ptr<Communicator> world =
        join_world({.join_timeout = options.timeout, .timeout = options.timeout}, place_among(peers));
    const control::NodesReport all = diagnose_nodes(*world, own, limits, options);
    pairs.status = control::CheckStatus::kPassed;
    for (const control::PairResult& pair : all.pairs) {
      if (pair.a != world->rank() && pair.b != world->rank()) continue;
      const int64_t partner = pair.a == world->rank() ? pair.b : pair.a;
      pairs.found += fmt::format("{}{:.0f} MB/s with {}", pairs.found.empty() ? "" : ", ",
                                 pair.bytes_per_second / 1e6, all.nodes[static_cast<size_t>(partner)].node);
    }
    for (const control::NodeFinding& finding : all.findings) {
      if (finding.node != own.node || (finding.check != "pairs" && finding.check != "clock")) continue;
      pairs.found += fmt::format("{}{}", pairs.found.empty() ? "" : ", ", finding.found);
      pairs.make(finding.status, finding.limit,
                 "its link, its switch port, its clock: compare with the partners' findings");
    }
  } catch (const Error& error) {
    pairs.found = error.fields().what + (error.fields().found.empty() ? "" : ": " + error.fields().found);
  }
  pairs.seconds = watch.seconds();
  own.seconds += pairs.seconds;
  own.results.push_back(std::move(pairs));
}

}  // namespace longhaul::comm
