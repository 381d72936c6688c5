// Measures how much of a run's speed an outer loop keeps on slow links (optim.outer = co2;
// docs/sources/co2.md §12). Workers that are threads or processes and share this machine's cores train a
// small model on random tokens, over links of a given bandwidth (comm::Delayed) and over unlimited ones,
// with CO2, with the τ that it chooses on the slow links, and with synchronous AdamW. All runs exist at the
// same time and take turns, so that other load on the machine affects all alike. A turn of CO2 consists of
// some rounds after one that is not timed, so each timed round waits for an exchange that began before it,
// as in a long run. A single worker has nothing to send: both of its columns are plain steps, and its
// "kept" shows how far equal turns differ by themselves. With several calls, each makes everything anew and
// is compared within itself; the row is that of the call with the median of CO2's "kept". The check: after
// a round all workers have the same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "observe/table.h"

namespace longhaul::bench {

struct OuterRequest {
  std::vector<int64_t> workers = {2, 4};
  double bytes_per_second = 20e6;  // bandwidth of a worker's link, in each direction
  int64_t layers = 4, hidden = 192, vocabulary = 1024, sequence = 256;
  int64_t batch = 2;  // sequences in a worker's step
  std::string dtype = "fp32";
  int64_t turns = 3, rounds = 2, steps = 3;  // turns; rounds in a turn of CO2; steps in a turn of AdamW
  int64_t calls = 1;
  bool processes = false;  // workers are processes, else threads
};

struct OuterRow {
  int64_t workers = 0, every = 0, parameters = 0;
  std::string reason;
  double step_s = 0, exchange_s = 0;  // as measured when τ was chosen
  double waited = 0;                  // share of CO2's time on slow links
  // Tokens per second: the median turn. kept: medians of a turn's ratios.
  double co2 = 0, co2_free = 0, adamw = 0, adamw_free = 0, kept = 0, adamw_kept = 0;
  bool same_weights = false;
  std::vector<double> kept_of_calls, adamw_kept_of_calls;  // sorted, ascending
};

std::vector<OuterRow> measure_outer(const OuterRequest& request);

// One measurement, called on every rank of `world`; the row is valid on rank 0. turn_done: called on rank 0
// after each turn.
OuterRow measure_outer_on(const OuterRequest& request, comm::Communicator& world,
                          const std::function<void()>& turn_done);

nlohmann::ordered_json to_json(const OuterRequest& request, const OuterRow& row);
observe::Table table_of(const OuterRequest& request, const std::vector<OuterRow>& rows);

}  // namespace longhaul::bench
