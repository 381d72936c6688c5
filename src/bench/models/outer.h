// What an outer loop keeps of a run's speed where links are slow (optim.outer = co2; docs/sources/co2.md §12): workers that are threads, or processes, and share
// this machine's cores train a small model on random tokens, over links that pass so many bytes a second (comm::Delayed) and over free ones, by CO2 with
// the τ that it picks on the slow links, and by synchronous AdamW. All are there at once and take turns, so that what else the machine does meets
// all. A turn of CO2 is some rounds behind one that is not timed, so each of them waits for an exchange that began before it, as in a long run.
// One worker has nobody to send to: both of its columns are plain steps, and what it keeps says how far equal turns differ by themselves.
// Several calls: each makes everything afresh and is compared within itself; the row is that of the call with the median of what CO2 kept.
// The check: behind a round all workers have the same bits.
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
  double bytes_per_second = 20e6;  // of a worker's link, either way
  int64_t layers = 4, hidden = 192, vocabulary = 1024, sequence = 256;
  int64_t batch = 2;  // sequences of a worker's step
  std::string dtype = "fp32";
  int64_t turns = 3, rounds = 2, steps = 3;  // of CO2 rounds a turn, of AdamW steps
  int64_t calls = 1;
  bool processes = false;  // workers, else threads
};

struct OuterRow {
  int64_t workers = 0, every = 0, parameters = 0;
  std::string reason;
  double step_s = 0, exchange_s = 0;  // as measured where τ was picked
  double waited = 0;                  // share of CO2's time on slow links
  // Tokens per second: the median turn. kept: medians of a turn's ratios.
  double co2 = 0, co2_free = 0, adamw = 0, adamw_free = 0, kept = 0, adamw_kept = 0;
  bool same_weights = false;
  std::vector<double> kept_of_calls, adamw_kept_of_calls;  // rising
};

std::vector<OuterRow> measure_outer(const OuterRequest& request);

// One call, on every rank of `world`; the row is rank 0's. turn_done: told on rank 0.
OuterRow measure_outer_on(const OuterRequest& request, comm::Communicator& world, const std::function<void()>& turn_done);

nlohmann::ordered_json to_json(const OuterRequest& request, const OuterRow& row);
observe::Table table_of(const OuterRequest& request, const std::vector<OuterRow>& rows);

}  // namespace longhaul::bench
