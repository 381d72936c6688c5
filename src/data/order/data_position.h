// The data position: what a checkpoint keeps so that a resumed run goes on with the sample the interrupted one would have taken
// next (docs/sources/reliability.md §5.7). The order is a pure function of these few values, so prefetched batches are not state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "data/order/packing.h"

namespace longhaul::data {

// Samples that are never trained on (after a loss spike, say): half-open ranges of sample numbers.
struct SampleRange {
  int64_t begin = 0, end = 0;
  bool operator==(const SampleRange&) const = default;
};

// What a checkpoint keeps of the data: where the next step begins, and what else decides the samples, to be compared on resume.
struct DataPosition {
  int64_t first_sample = 0;  // first position not yet trained on
  std::vector<SampleRange> skip;
  std::vector<std::string> datasets;  // fingerprints
  std::string tokenizer_sha256;
  int64_t sequence = 0;
  uint64_t seed = 0;
  int64_t packing = kPackingVersion;  // how samples follow from all this
  bool operator==(const DataPosition&) const = default;
};

nlohmann::json to_json(const DataPosition& position);
DataPosition data_position_from_json(const nlohmann::json& json);  // kCheckpoint when a field is missing
// A run that resumes must go on with the same data in the same order: kData, naming what differs. `now`: the position at which this
// start would go on from the checkpoint. Its skip list may have more than the saved one, behind what has been trained on. A checkpoint that has trained
// on a sample which is to be passed over belongs to a course of the run that was given up (a rollback).
void require_same_data(const DataPosition& saved, const DataPosition& now);

}  // namespace longhaul::data
