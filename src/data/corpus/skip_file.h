// RUN/control/skip.json: samples that this run passes over: batches that spoilt the loss (the trainer finds them) or killed every rank that read
// them (the driver does). It is read when ranks start; what they pass over stands in the data position of every checkpoint from then on.
//
//   {"version": 1, "ranges": [{"begin": 800, "end": 1600, "reason": "loss spike at step 190", "by": "trainer", "rate_factor": 0.5}, …]}
//
// begin and end are numbers of samples, as in SampleRange. rate_factor: what the learning rate is multiplied with from there on. Replaced whole, by a
// rename: a reader sees the one or the other. Each writer keeps what the other has there; the driver writes while no rank runs, rank 0 while they do.
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

inline std::filesystem::path skip_file(const std::filesystem::path& run_folder) { return run_folder / "control" / "skip.json"; }

std::vector<SkipEntry> read_skips(const std::filesystem::path& file);  // none: there is no file. kData where it is not one
// The same in two parts, for one process to read and others to understand.
std::string skips_text(const std::filesystem::path& file);  // empty: there is no file
std::vector<SkipEntry> skips_of(const std::string& text, const std::string& where);
void add_skip(const std::filesystem::path& file, const SkipEntry& entry);
// In the place of all that `by` has there; what others have stays.
void set_skips(const std::filesystem::path& file, const std::string& by, std::vector<SkipEntry> entries);
std::vector<SampleRange> ranges_of(const std::vector<SkipEntry>& entries);
std::vector<SampleRange> skipped_in(const nlohmann::json& data_position);  // of a checkpoint; none: its task has no list
std::vector<SampleRange> merged(std::vector<SampleRange> ranges);          // ascending, apart from each other

}  // namespace longhaul::data
