// Start-up of many ranks: what it costs the store at which they meet. Counted: the operations of n simulated ranks, eight a machine, until they are
// connected: all that Wire and comm::meeting ask of the store (Gloo's addresses and those of shared memory too), whose slope over n in logarithms is near
// 1; a few real ranks, connected, are counted beside it. And of the way that made large jobs slow (MegaScale, arXiv 2402.15627 §3.5): every group of the mesh made
// by all ranks one after the other with a barrier at the store, slope 2. Timed: a real TCPStore with as many clients, each a thread, that do the same
// but open no connections.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "observe/table.h"

namespace longhaul::bench {

struct StartupRow {
  int64_t ranks = 0;
  int64_t operations = 0;          // of the store; one that reads n values counts n
  int64_t barrier_operations = 0;  // of the way with a barrier for each group; 0: not run
  double milliseconds = 0;         // of a real store's clients, until each knows all others' addresses; 0: not run
};

struct Startup {
  std::vector<StartupRow> rows;
  double slope = 0, barrier_slope = 0;  // of log operations over log ranks
  int64_t real_ranks = 0;               // that were connected,
  int64_t real_operations = 0;          // what they asked of their store,
  int64_t simulated_operations = 0;     // and as many simulated ones of one machine
  static constexpr double kMostSlope = 1.1;
  bool good() const { return slope <= kMostSlope && real_operations == simulated_operations; }
};

int64_t start_operations(int64_t ranks, int64_t ranks_per_machine);
int64_t real_start_operations(int64_t ranks);  // of threads of this process that are connected as ranks are
int64_t barrier_operations(int64_t ranks);
double real_store_milliseconds(int64_t ranks);
double log_slope(const std::vector<std::pair<double, double>>& points);  // least squares

// Up to 10,240 ranks counted, a store with up to `most_clients` (a power of two from 64 on) timed.
Startup measure_startup(int64_t most_clients);

nlohmann::ordered_json to_json(const Startup& startup);
observe::Table table_of(const Startup& startup);
std::string comparison_text(const Startup& startup);

}  // namespace longhaul::bench
