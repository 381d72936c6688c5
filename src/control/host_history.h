// The history of hosts over runs and weeks, and which of them are lemons: machines that fail again and again
// and pass every check in between (arXiv 2410.21680: seven signals over 28 days; removing 40 such nodes
// lowered the failures of large jobs from 14 % to 4 %). The paper does not publish its thresholds: the ones
// here are ours. A host with `kLemon` signals or more is used last, but not never, so that a wrong judgement
// costs a spare node and not a run.
//
// All runs of a cluster or user share one file of JSON lines that is only appended to; lines that cannot be
// read are skipped.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::control {

enum class HostEvent : uint8_t {
  kExcluded,     // a job asked not to be placed on it, or evicted it
  kDeviceError,  // an Xid error of its GPUs
  // Somebody was asked to look at the host. This program knows of no tickets; another program may append
  // them.
  kTicket,
  kOutOfService,     // it was taken out of service
  kManyNodeFailure,  // it failed in a run of several nodes
  kOneNodeFailure,   // it failed in a run on this host alone
  kOneNodeSuccess,   // a run on this host alone ended well: the counterpart for the failure rate
};
std::string_view name_of(HostEvent event);  // "excluded"

struct HostRecord {
  double time_s = 0;  // Unix seconds
  std::string host;
  HostEvent event = HostEvent::kExcluded;
  std::string run;
};

void append_record(const std::filesystem::path& file, const HostRecord& record);
// An empty list where there is no file.
std::vector<HostRecord> read_records(const std::filesystem::path& file);

inline constexpr double kHostMemory_s = 28 * 86400.0;
inline constexpr int64_t kLemon = 2;  // number of signals above their thresholds from which a host is a lemon

struct LemonScore {
  std::array<int64_t, 6> counts{};  // counts of the first six events
  double one_node_failure_rate = 0;
  int64_t signals = 0;  // how many of the seven signals are above their thresholds
  bool lemon() const { return signals >= kLemon; }
};
LemonScore lemon_score(const std::vector<HostRecord>& records, const std::string& host, double now_s);

// Orders hosts for use: as given, but lemons last, the worst of them at the very end.
std::vector<std::string> order_of_use(std::vector<std::string> hosts, const std::vector<HostRecord>& records,
                                      double now_s);

}  // namespace longhaul::control
