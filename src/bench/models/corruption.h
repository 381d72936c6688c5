// Measures which share of silent corruptions the checks of [guard] catch (train/guards/corruption.h,
// train/guards/spike_ladder.h), and the cost of the checks. One bit of one number is flipped at random in the
// weights, states, gradients, products or activations of a small model that has been trained for some
// steps; the check runs; the bit is restored. For the cost, the checks take turns with whole steps of a
// preset.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "observe/table.h"

namespace longhaul::bench {

struct CorruptionRequest {
  int64_t flips = 100;  // flips of each kind and place
  int64_t ranks = 3;    // threads; a majority needs three
  int64_t seed = 0;
  std::string preset = "first-run";  // preset with which the cost is measured
  int64_t turns = 3;
};

enum class BitKind { kSign, kExponent, kMantissa };

struct CorruptionRow {
  std::string place, dtype, check;
  std::string by;  // what the check compares with: "replicas", "alone"
  struct Rate {
    // named: caught ones for which the right rank, and no other, was named.
    int64_t flips = 0, caught = 0, named = 0;
  };
  Rate sign, exponent, mantissa;
};

struct CorruptionCost {
  std::string check;
  double milliseconds = 0, step_milliseconds = 0;
  double of_a_step() const { return milliseconds / step_milliseconds; }
};

struct Corruption {
  std::vector<CorruptionRow> rows;
  std::vector<CorruptionCost> costs;
  int64_t false_alarms = 0;  // alarms of checks before anything was flipped
  // No false alarm; of flipped exponents, 95 of 100 are caught if replicas, hashes or block sums are there
  // to compare with.
  bool good() const;
};

Corruption measure_corruption(const CorruptionRequest& request);
nlohmann::ordered_json to_json(const Corruption& measured);
std::vector<observe::Table> tables_of(const Corruption& measured);

}  // namespace longhaul::bench
