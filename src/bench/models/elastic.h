// Measures the cost of an elastic run (train.elastic, docs/design/elastic.md): whole training steps of a
// preset on random tokens, on 1, 2 and 4 ranks that are threads and share this machine's cores, with and
// without train.elastic. Both runs exist at the same time and take turns, step by step, so that other load
// on the machine affects both alike. The check: elastic losses and norms of all steps have the same bits on
// any number of ranks.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "observe/table.h"

namespace longhaul::bench {

struct ElasticRequest {
  std::string preset = "first-run";
  int64_t batch = 8, micro_batch = 1, sequence = 256;
  std::string dtype = "bf16";
  int64_t steps = 5;  // timed steps, after one that is not timed
};

struct ElasticSide {
  double milliseconds = 0;  // median time of a step
  // The bytes of all ranks together: what they hold, plus the most that a step needs in addition.
  int64_t peak_bytes = 0;
};

struct ElasticRow {
  int64_t ranks = 0;
  double tokens = 0;  // of a step
  ElasticSide usual, elastic;
  std::vector<double> numbers;  // elastic: loss and norm of every step
  double rate(const ElasticSide& side) const { return tokens / side.milliseconds * 1e3; }
};

std::vector<ElasticRow> measure_elastic(const ElasticRequest& request);
bool same_bits(const std::vector<ElasticRow>& rows);

nlohmann::ordered_json to_json(const ElasticRequest& request, const ElasticRow& row);
observe::Table table_of(const ElasticRequest& request, const std::vector<ElasticRow>& rows);

}  // namespace longhaul::bench
