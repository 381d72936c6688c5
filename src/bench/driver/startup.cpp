#include "bench/driver/startup.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/net/network.h"
#include "base/threads/worker.h"
#include "comm/gloo/meeting.h"
#include "comm/gloo/wire.h"
#include "layout/mesh.h"

namespace longhaul::bench {
namespace {

const std::vector<comm::Identity> kIdentities = {{"program", "0123456789abcdef"},
                                                 {"recipe", "0123456789abcdef"}};
constexpr comm::Timeout kPatience = std::chrono::minutes(5);
constexpr int64_t kPerMachine = 8;
const std::string kAddress(170, 'a');  // about as long as one of Gloo's

// A store in this process that counts. What is waited for is there: the simulated ranks come one after the
// other.
class CountingStore final : public comm::Store {
 public:
  int64_t operations = 0;

  void set(const std::string& key, const std::string& value) override {
    ++operations;
    values_[key] = value;
  }
  bool has(const std::string& key) override {
    ++operations;
    return values_.contains(key);
  }
  bool wait_for(const std::string& key, std::chrono::milliseconds) override { return has(key); }
  std::string get(const std::string& key) override {
    ++operations;
    return values_.at(key);
  }
  std::vector<std::string> get(const std::vector<std::string>& keys) override {
    std::vector<std::string> all;
    for (const std::string& key : keys) all.push_back(get(key));
    return all;
  }
  int64_t add(const std::string& key, int64_t number) override {
    ++operations;
    return sums_[key] += number;
  }

 private:
  std::map<std::string, std::string> values_;
  std::map<std::string, int64_t> sums_;
};

// Pipelines of up to eight stages, as at MegaScale.
layout::Mesh mesh_for(int64_t ranks) {
  return layout::Mesh(ranks, {.pp = std::min<int64_t>(8, ranks / kPerMachine), .tp = kPerMachine});
}

void require_agreed(const std::optional<comm::Failure>& failure) {
  if (failure) throw Error(failure->fields);
}

}  // namespace

int64_t start_operations(int64_t ranks, int64_t ranks_per_machine) {
  CountingStore store;
  const auto machine_of = [&](int64_t rank) { return std::to_string(rank / ranks_per_machine); };
  const auto all_say = [&](const auto& topic_of, const auto& place_of, const auto& count_of) {
    for (int64_t rank = 0; rank < ranks; ++rank) comm::say(store, topic_of(rank), place_of(rank), "");
    for (int64_t rank = 0; rank < ranks; ++rank) {
      if (place_of(rank) == 0) comm::collect(store, topic_of(rank), count_of(rank));
    }
    for (int64_t rank = 0; rank < ranks; ++rank) comm::hear(store, topic_of(rank));
  };
  for (int64_t rank = 0; rank < ranks; ++rank) comm::announce(store, rank, ranks, kIdentities);
  for (int64_t rank = 0; rank < ranks; ++rank) require_agreed(comm::verdict(store, rank, ranks, kPatience));
  std::vector<int64_t> places, counts;
  for (int64_t rank = 0; rank < ranks; ++rank)
    places.push_back(comm::come_to_machine(store, machine_of(rank)));
  for (const comm::Told what : comm::kToldInOrder) {
    const bool of_machine = comm::of_a_machine(what);
    if (of_machine && counts.empty()) {
      for (int64_t rank = 0; rank < ranks; ++rank)
        counts.push_back(comm::ranks_of_machine(store, machine_of(rank)));
    }
    all_say([&](int64_t rank) { return comm::topic_of(what, machine_of(rank)); },
            [&](int64_t rank) { return of_machine ? places[static_cast<size_t>(rank)] : rank; },
            [&](int64_t rank) { return of_machine ? counts[static_cast<size_t>(rank)] : ranks; });
  }
  return store.operations;
}

int64_t barrier_operations(int64_t ranks) {
  CountingStore store;
  for (const layout::GroupKind& kind : mesh_for(ranks).group_kinds()) {
    for (size_t number = 0; number < kind.groups.size(); ++number) {
      const std::string key = fmt::format("{}/{}", kind.name, number);
      for (int64_t rank = 0; rank < ranks; ++rank) {
        if (store.add(key, 1) == ranks) store.set(key, "");
      }
      for (int64_t rank = 0; rank < ranks; ++rank) store.wait_for(key, kPatience);
    }
  }
  return store.operations;
}

namespace {

// Ranks that are threads, each with a client of a real store; the store is gone with them.
class RealRanks {
 public:
  explicit RealRanks(int64_t ranks) : wires_(static_cast<size_t>(ranks)) {
    for (int64_t rank = 0; rank < ranks; ++rank)
      workers_.push_back(std::make_unique<Worker>(fmt::format("rank {}", rank)));
    wires_[0] = std::make_unique<comm::Wire>(options(true));
  }
  ~RealRanks() {
    while (wires_.size() > 1) wires_.pop_back();  // rank 0's goes last
  }

  // All at once, until all are done.
  template <class Work>
  void each(const Work& work) {
    for (size_t rank = 0; rank < wires_.size(); ++rank) {
      workers_[rank]->post([this, rank, work] {
        if (!wires_[rank]) wires_[rank] = std::make_unique<comm::Wire>(options(false));
        work(*wires_[rank], static_cast<int64_t>(rank));
      });
    }
    for (const auto& worker : workers_) worker->wait();
  }
  int64_t operations() const {
    int64_t all = 0;
    for (const auto& wire : wires_) all += wire->operations();
    return all;
  }

 private:
  comm::WireOptions options(bool serves) const {
    return {.host = "127.0.0.1", .port = port_, .serves = serves, .prefix = "/startup", .timeout = kPatience};
  }
  uint16_t port_ = free_port();
  std::vector<std::unique_ptr<comm::Wire>> wires_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace

int64_t real_start_operations(int64_t ranks) {
  RealRanks real(ranks);
  real.each([ranks](comm::Wire& wire, int64_t rank) {
    comm::announce(wire, rank, ranks, kIdentities);
    require_agreed(comm::verdict(wire, rank, ranks, kPatience));
    wire.connect(rank, ranks);
  });
  return real.operations();
}

double real_store_milliseconds(int64_t ranks) {
  const Stopwatch watch;
  RealRanks real(ranks);
  real.each([ranks](comm::Wire& wire, int64_t rank) {
    comm::announce(wire, rank, ranks, kIdentities);
    require_agreed(comm::verdict(wire, rank, ranks, kPatience));
    const std::string machine = std::to_string(rank / kPerMachine);
    const int64_t place = comm::come_to_machine(wire, machine);
    std::optional<int64_t> count;
    for (const comm::Told what : comm::kToldInOrder) {
      const bool of_machine = comm::of_a_machine(what);
      if (of_machine && !count) count = comm::ranks_of_machine(wire, machine);
      comm::tell_each_other(wire, comm::topic_of(what, machine), of_machine ? place : rank,
                            of_machine ? *count : ranks, kAddress);
    }
  });
  return watch.milliseconds();
}

double log_slope(const std::vector<std::pair<double, double>>& points) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [a, b] : points) {
    const double u = std::log(a), v = std::log(b);
    n += 1, x += u, y += v, xx += u * u, xy += u * v;
  }
  return (n * xy - x * y) / (n * xx - x * x);
}

Startup measure_startup(int64_t most_clients) {
  // 10 million operations; ten times the ranks are a hundred times these
  constexpr int64_t kMostOfBarriers = 1024;
  Startup startup;
  std::vector<std::pair<double, double>> linear, barriers;
  for (const int64_t ranks : {64, 128, 256, 512, 1024, 2048, 4096, 10240}) {
    StartupRow row{.ranks = ranks, .operations = start_operations(ranks, kPerMachine)};
    linear.emplace_back(ranks, row.operations);
    if (ranks <= kMostOfBarriers) {
      row.barrier_operations = barrier_operations(ranks);
      barriers.emplace_back(ranks, row.barrier_operations);
    }
    if (ranks <= most_clients) row.milliseconds = real_store_milliseconds(ranks);
    startup.rows.push_back(row);
  }
  startup.slope = log_slope(linear);
  startup.barrier_slope = log_slope(barriers);
  startup.real_ranks = 8;
  startup.real_operations = real_start_operations(startup.real_ranks);
  startup.simulated_operations = start_operations(startup.real_ranks, startup.real_ranks);
  return startup;
}

nlohmann::ordered_json to_json(const Startup& startup) {
  nlohmann::ordered_json json{{"name", "startup"},
                              {"slope", startup.slope},
                              {"slope_with_barriers", startup.barrier_slope},
                              {"real_ranks", startup.real_ranks},
                              {"operations_of_real_ranks", startup.real_operations},
                              {"operations_of_as_many_simulated", startup.simulated_operations}};
  json["rows"] = nlohmann::ordered_json::array();
  for (const StartupRow& row : startup.rows) {
    nlohmann::ordered_json& into = json["rows"].emplace_back(
        nlohmann::ordered_json{{"ranks", row.ranks}, {"operations", row.operations}});
    if (row.barrier_operations > 0) into["operations_with_barriers"] = row.barrier_operations;
    if (row.milliseconds > 0) into["milliseconds_of_real_store"] = row.milliseconds;
  }
  return json;
}

std::string comparison_text(const Startup& startup) {
  return fmt::format(
      "{} real ranks, connected, asked for {} operations; as many simulated ones of one machine for {}\n",
      startup.real_ranks, startup.real_operations, startup.simulated_operations);
}

observe::Table table_of(const Startup& startup) {
  using observe::Align;
  observe::Table table("operations of the store until all ranks are connected",
                       {{"ranks", Align::kRight},
                        {"operations", Align::kRight},
                        {"a barrier a group", Align::kRight},
                        {"real store, ms", Align::kRight}});
  for (const StartupRow& row : startup.rows)
    table.row({std::to_string(row.ranks), std::to_string(row.operations),
               row.barrier_operations > 0 ? std::to_string(row.barrier_operations) : "",
               row.milliseconds > 0 ? fmt::format("{:.0f}", row.milliseconds) : ""});
  table.total(
      {"slope", fmt::format("{:.3f}", startup.slope), fmt::format("{:.3f}", startup.barrier_slope), ""});
  return table;
}

}  // namespace longhaul::bench
