// Reads the samples that a run records of its own machines as one Pull: RUN/samples/<node>.ring of every
// node, on one grid of seconds. Machines are named by their hosts, and by host/node where several nodes of
// the run share a host.
//
// The examined time ends with the last second that most machines have reached, so that a fast clock or a slow
// file system does not move it. What cannot be judged is left out and reported in sentences: rings that
// cannot be read, that ended before the examined time or begin after it (clocks), damaged rows, samples that
// are all old, and nodes that are one machine. `machines.csv` (machine,class) in the same folder says which
// machines are peers. A machine whose ranks were ended by the run (it was released, or is a spare) does not
// count as silent.
#pragma once

#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "detect/samples/sample_ring.h"
#include "detect/samples/samples.h"

namespace longhaul::detect {

std::filesystem::path samples_folder(const std::filesystem::path& run_folder);
bool has_rings(const std::filesystem::path& run_folder);
std::vector<std::filesystem::path> ring_files(const std::filesystem::path& run_folder);  // sorted

struct RunTime {
  double end_s = std::numeric_limits<double>::infinity();  // the last second to examine, in Unix time
  int64_t seconds = kRingSeconds;                          // at most so many seconds
  // used to report how old samples are; 0: not reported
  double now_s = 0;
};

struct RunSamples {
  Pull pull;
  std::vector<std::string> remarks;  // sentences, for RunReport::not_judged
};

// Error (65) where there are no rings, or none has samples in that time.
RunSamples read_run_samples(const std::filesystem::path& run_folder, const std::vector<size_t>& wanted,
                            const AlignOptions& options, const RunTime& time = {});

// Reads a run's rings if the folder has some, else CSV files.
RunSamples read_samples(const std::filesystem::path& folder, const std::vector<size_t>& wanted,
                        const AlignOptions& options, const RunTime& time = {});

bool has_samples(const std::filesystem::path& folder);  // of either kind

// Finds the folders that hold samples ("shard", "case-0001", a run), among these folders or one level below.
std::vector<std::filesystem::path> case_folders(std::span<const std::string> folders);

}  // namespace longhaul::detect
