#include "bench/startup.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/network.h"
#include "base/worker.h"
#include "comm/meeting.h"
#include "comm/wire.h"
#include "layout/mesh.h"

namespace longhaul::bench {
namespace {

constexpr const char* kIdentity = R"([["program","0123456789abcdef"],["recipe","0123456789abcdef"]])";
constexpr comm::Timeout kPatience = std::chrono::minutes(5);

// A store in this process that counts. What is waited for is there: the simulated ranks come one after the other.
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

// Eight ranks a machine, pipelines of up to eight stages, as at MegaScale.
layout::Mesh mesh_for(int64_t ranks) { return layout::Mesh(ranks, {.pp = std::min<int64_t>(8, ranks / 8), .tp = 8}); }

void require_agreed(const std::optional<comm::Failure>& failure) {
  if (failure) throw Error(failure->fields);
}

}  // namespace

int64_t meeting_operations(int64_t ranks) {
  CountingStore store;
  for (int64_t rank = 0; rank < ranks; ++rank) comm::announce(store, rank, ranks, kIdentity);
  for (int64_t rank = 0; rank < ranks; ++rank) require_agreed(comm::verdict(store, rank, ranks, kPatience));
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

double real_store_milliseconds(int64_t ranks) {
  const uint16_t port = free_port();
  const auto options = [&](bool serves) {
    return comm::WireOptions{.host = "127.0.0.1", .port = port, .serves = serves, .prefix = "/startup", .timeout = kPatience};
  };
  std::vector<std::unique_ptr<comm::Wire>> wires(static_cast<size_t>(ranks));  // rank 0's goes last, and the store with it
  std::vector<std::unique_ptr<Worker>> workers;
  for (int64_t rank = 0; rank < ranks; ++rank) workers.push_back(std::make_unique<Worker>(fmt::format("rank {}", rank)));
  const Stopwatch watch;
  wires[0] = std::make_unique<comm::Wire>(options(true));
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const auto self = static_cast<size_t>(rank);
    workers[self]->post([&, rank, self] {
      if (rank > 0) wires[self] = std::make_unique<comm::Wire>(options(false));
      comm::announce(*wires[self], rank, ranks, kIdentity);
      require_agreed(comm::verdict(*wires[self], rank, ranks, kPatience));
    });
  }
  for (const auto& worker : workers) worker->wait();
  const double milliseconds = watch.milliseconds();
  while (wires.size() > 1) wires.pop_back();
  return milliseconds;
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
  constexpr int64_t kMostOfBarriers = 1024;  // 10 million operations; ten times the ranks are a hundred times these
  Startup startup;
  std::vector<std::pair<double, double>> linear, barriers;
  for (const int64_t ranks : {64, 128, 256, 512, 1024, 2048, 4096, 10240}) {
    StartupRow row{.ranks = ranks, .operations = meeting_operations(ranks)};
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
  return startup;
}

nlohmann::ordered_json to_json(const Startup& startup) {
  nlohmann::ordered_json json{{"name", "startup"}, {"slope", startup.slope}, {"slope_with_barriers", startup.barrier_slope}};
  json["rows"] = nlohmann::ordered_json::array();
  for (const StartupRow& row : startup.rows) {
    nlohmann::ordered_json& into = json["rows"].emplace_back(nlohmann::ordered_json{{"ranks", row.ranks}, {"operations", row.operations}});
    if (row.barrier_operations > 0) into["operations_with_barriers"] = row.barrier_operations;
    if (row.milliseconds > 0) into["milliseconds_of_real_store"] = row.milliseconds;
  }
  return json;
}

observe::Table table_of(const Startup& startup) {
  using observe::Align;
  observe::Table table(
      "operations of the store until all ranks have met",
      {{"ranks", Align::kRight}, {"operations", Align::kRight}, {"a barrier a group", Align::kRight}, {"real store, ms", Align::kRight}});
  for (const StartupRow& row : startup.rows)
    table.row({std::to_string(row.ranks), std::to_string(row.operations),
               row.barrier_operations > 0 ? std::to_string(row.barrier_operations) : "",
               row.milliseconds > 0 ? fmt::format("{:.0f}", row.milliseconds) : ""});
  table.total({"slope", fmt::format("{:.3f}", startup.slope), fmt::format("{:.3f}", startup.barrier_slope), ""});
  return table;
}

}  // namespace longhaul::bench
