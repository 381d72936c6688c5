// RUN/control/skip.json: the samples that this run skips, because their batches spoilt the loss (found by the
// trainer) or killed every rank that read them (found by the driver). It is read when ranks start; from then
// on every checkpoint contains the skipped samples in its data position.
//
//   {"version": 1, "ranges": [{"begin": 800, "end": 1600, "reason": "loss spike at step 190", "by":
//     "trainer", "rate_factor": 0.5}, …]}
//
// begin and end are sample numbers, as in SampleRange. rate_factor: the factor of the learning rate from
// there on. The file is replaced as a whole, by a rename, so that a reader sees the old or the new one. Each
// writer keeps the entries of the other; the driver writes while no rank runs, rank 0 while ranks run.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/order/data_position.h"

namespace longhaul::data {

struct SkipEntry {
  SampleRange range;
  std::string reason, by;
  double rate_factor = 1;
};

inline std::filesystem::path skip_file(const std::filesystem::path& run_folder) {
  return run_folder / "control" / "skip.json";
}

// empty: there is no file; kData where it is no skip list.
std::vector<SkipEntry> read_skips(const std::filesystem::path& file);
// The same in two steps, so that one process reads the file and others parse its text.
std::string skips_text(const std::filesystem::path& file);  // empty: there is no file
std::vector<SkipEntry> skips_of(const std::string& text, const std::string& where);
void add_skip(const std::filesystem::path& file, const SkipEntry& entry);
// Replaces all entries of `by`; the entries of others stay.
void set_skips(const std::filesystem::path& file, const std::string& by, std::vector<SkipEntry> entries);
std::vector<SampleRange> ranges_of(const std::vector<SkipEntry>& entries);
// From a checkpoint; empty: its task has no list.
std::vector<SampleRange> skipped_in(const nlohmann::json& data_position);
std::vector<SampleRange> merged(std::vector<SampleRange> ranges);  // ascending, disjoint

}  // namespace longhaul::data
