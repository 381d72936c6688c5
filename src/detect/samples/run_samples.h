// The samples that a run keeps of its own machines, as one Pull: RUN/samples/<node>.ring of every node, on one grid of seconds. Machines are named
// by their hosts, and by host/node where several nodes of the run share a host.
//
// The time looked at ends with the last second that most machines have reached: a clock that is ahead or a file system that is late does not move it.
// What cannot be judged is left out and said in sentences: rings that cannot be read, that ended before the time looked at or begin after it (clocks),
// rows that are damaged, samples that are all old, nodes that are one machine. `machines.csv` (machine,class) in the same folder says who are peers.
// A machine whose ranks were ended by the run (it was released, or stands by) is no silent one.
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
  double end_s = std::numeric_limits<double>::infinity();  // the last second looked at, in Unix time
  int64_t seconds = kRingSeconds;                          // of which at most so many
  double now_s = 0;                                        // to tell how old samples are; 0: that is not told
};

struct RunSamples {
  Pull pull;
  std::vector<std::string> remarks;  // sentences, for RunReport::not_judged
};

// Error (65): no rings, or none of them has samples in that time.
RunSamples read_run_samples(const std::filesystem::path& run_folder, const std::vector<size_t>& wanted, const AlignOptions& options,
                            const RunTime& time = {});

// Of a run's rings where the folder has some, else of CSV files.
RunSamples read_samples(const std::filesystem::path& folder, const std::vector<size_t>& wanted, const AlignOptions& options,
                        const RunTime& time = {});

bool has_samples(const std::filesystem::path& folder);  // of either kind

// "shard", "case-0001", a run: the folders that hold samples, in these folders or one below.
std::vector<std::filesystem::path> case_folders(std::span<const std::string> folders);

}  // namespace longhaul::detect
