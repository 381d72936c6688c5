// Times the products of one matrix with spike counts in four ways beside each other: bf16 (the packed kernel
// that every model uses), whole numbers (kernels/spikes/integer_product.h), and the event-driven product that
// skips zeros, by counts and by spikes. Several copies of the weights take turns, so that they come from
// memory as those of a model's layers do, and the ways take turns in every run, so that other load affects
// all alike. The inputs are drawn from a normal distribution. The check: whole numbers equal the simulated
// product to 1e-5 and the event-driven ones to 1e-5.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "observe/table.h"

namespace longhaul::bench {

struct SpikesRequest {
  int64_t tokens = 1, in = 896, out = 4864;  // by default up and gate of Qwen2.5-0.5B, one token
  int64_t copies = 16;                       // of the weights
  double k = 3;
  int64_t runs = 5;  // timed, after one that is not
  uint64_t seed = 0;
};

struct SpikesWay {
  std::string name;
  double milliseconds = 0;  // of one product: the median run
  double over_bf16 = 0;     // bf16's time over this one's
  double error = 0;         // from the simulated product in fp32, relative to its largest
};
struct SpikesResult {
  std::vector<SpikesWay> ways;
  std::string instructions;                                // of whole numbers
  double silent_share = 0, mean_spikes = 0, sparsity = 0;  // of the inputs
  double rows_by_counts = 0, rows_by_spikes = 0;           // added for a token, as a share of `in`
  bool correct() const;
};

SpikesResult measure_spikes(const SpikesRequest& request);
nlohmann::ordered_json to_json(const SpikesRequest& request, const SpikesResult& result);
observe::Table table_of(const SpikesRequest& request, const SpikesResult& result);

}  // namespace longhaul::bench
