// The data position: the data that a checkpoint stores so that a resumed run continues with the sample that
// the interrupted one would have read next (docs/sources/reliability.md §5.7). The order is a pure function
// of these few values, so prefetched batches are not state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "data/order/packing.h"

namespace longhaul::data {

// SampleRange: samples that are never trained on (after a loss spike, say): a half-open range of sample
// numbers.
struct SampleRange {
  int64_t begin = 0, end = 0;
  bool operator==(const SampleRange&) const = default;
};

// The number of the sample at a position of the data order when these ranges, sorted and disjoint, are left
// out.
int64_t sample_at(int64_t position, const std::vector<SampleRange>& skip);

// DataPosition: where the next step begins, and everything else that determines the samples, to be compared
// on resume.
struct DataPosition {
  int64_t first_sample = 0;  // first position not yet trained on
  std::vector<SampleRange> skip;
  std::vector<std::string> datasets;  // fingerprints
  std::string tokenizer_sha256;
  int64_t sequence = 0;
  uint64_t seed = 0;
  int64_t packing = kPackingVersion;  // version of the rule by which samples follow from these values
  bool operator==(const DataPosition&) const = default;
};

nlohmann::json to_json(const DataPosition& position);
DataPosition data_position_from_json(const nlohmann::json& json);  // kCheckpoint when a field is missing
// Throws kData, naming the difference, unless a resumed run continues with the same data in the same order.
// `now`: the position at which this start would continue from the checkpoint. Its skip list may be longer
// than the saved one, but only after the samples already trained on. A checkpoint that has trained on a
// sample to be skipped belongs to a part of the run that was given up (by a rollback).
void require_same_data(const DataPosition& saved, const DataPosition& now);

}  // namespace longhaul::data
