// The start-up of many ranks: the load that it puts on the store at which they meet.
// Counted: the store operations of n simulated ranks, eight on each machine, until they are connected:
// everything that Wire and comm::meeting ask of the store (Gloo's addresses and those of shared memory
// too); the slope over n on logarithmic scales is near 1. A few real ranks, connected, are counted for
// comparison.
// Counted too: the method that made large jobs slow (MegaScale, arXiv 2402.15627 §3.5), in which all ranks
// make every group of the mesh one after the other with a barrier at the store; its slope is 2.
// Timed: a real TCPStore with as many clients, each a thread, that do the same but open no connections.
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
  int64_t operations = 0;          // store operations; one that reads n values counts n
  int64_t barrier_operations = 0;  // of the method with a barrier for each group; 0: not run
  // For the clients of a real store until each knows the addresses of all others; 0: not run.
  double milliseconds = 0;
};

struct Startup {
  std::vector<StartupRow> rows;
  double slope = 0, barrier_slope = 0;  // slopes of log operations over log ranks
  int64_t real_ranks = 0;               // real ranks that were connected
  int64_t real_operations = 0;          // store operations of these ranks
  int64_t simulated_operations = 0;     // store operations of as many simulated ranks on one machine
  static constexpr double kMostSlope = 1.1;
  bool good() const { return slope <= kMostSlope && real_operations == simulated_operations; }
};

int64_t start_operations(int64_t ranks, int64_t ranks_per_machine);
// The store operations of ranks that are threads of this process, connected as real ranks are.
int64_t real_start_operations(int64_t ranks);
int64_t barrier_operations(int64_t ranks);
double real_store_milliseconds(int64_t ranks);
double log_slope(const std::vector<std::pair<double, double>>& points);  // least squares

// Counts up to 10,240 ranks, and times a store with up to `most_clients` clients (a power of two from 64
// on).
Startup measure_startup(int64_t most_clients);

nlohmann::ordered_json to_json(const Startup& startup);
observe::Table table_of(const Startup& startup);
std::string comparison_text(const Startup& startup);

}  // namespace longhaul::bench
