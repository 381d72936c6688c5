// What of silent corruption the checks of [guard] catch (train/corruption.h, train/spike_ladder.h), and what they cost. One bit of one number is flipped, of
// weights, states, gradients, products and activations of a small model that has been trained for some steps, drawn by chance; the check runs; the bit is
// put back. Then the checks take turns with whole steps of a preset.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "observe/table.h"

namespace longhaul::bench {

struct CorruptionRequest {
  int64_t flips = 100;  // of each kind and place
  int64_t ranks = 3;    // threads; a majority needs three
  int64_t seed = 0;
  std::string preset = "first-run";  // for the cost
  int64_t turns = 3;
};

enum class BitKind { kSign, kExponent, kMantissa };

struct CorruptionRow {
  std::string place, dtype, check;
  std::string by;  // what the check has to go by: "replicas", "alone"
  struct Rate {
    int64_t flips = 0, caught = 0, named = 0;  // named: of those, by the right rank and no other
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
  int64_t false_alarms = 0;  // of checks before anything was flipped
  bool good() const;         // no false alarm; of exponents with replicas, hashes or sums of blocks to go by 95 of 100 are caught
};

Corruption measure_corruption(const CorruptionRequest& request);
nlohmann::ordered_json to_json(const Corruption& measured);
std::vector<observe::Table> tables_of(const Corruption& measured);

}  // namespace longhaul::bench
