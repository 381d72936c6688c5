// What has happened to hosts over runs and weeks, and which of them are lemons: machines that fail again and again and pass every check in
// between (arXiv 2410.21680: seven signals over 28 days; 40 such nodes, taken out, brought failures of large jobs from 14 % to 4 %). The paper does
// not publish its thresholds: those here are ours. A host beyond `kLemon` is used last, not never: a check that was wrong costs a spare, no run.
//
// One file for all runs of a cluster or user, JSON lines that are only appended; what cannot be read of it is passed over.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::control {

enum class HostEvent : uint8_t {
  kExcluded,         // a job asked not to be placed on it, or evicted it
  kDeviceError,      // an Xid of its GPUs
  kTicket,           // somebody was asked to look at it: nothing here knows of tickets, another program may append them
  kOutOfService,     // it was taken out
  kManyNodeFailure,  // it failed in a run of several nodes
  kOneNodeFailure,   // and in one of its own
  kOneNodeSuccess,   // a run of its own that ended well: the other half of a rate
};
std::string_view name_of(HostEvent event);  // "excluded"

struct HostRecord {
  double time_s = 0;  // Unix seconds
  std::string host;
  HostEvent event = HostEvent::kExcluded;
  std::string run;
};

void append_record(const std::filesystem::path& file, const HostRecord& record);
std::vector<HostRecord> read_records(const std::filesystem::path& file);  // none: no file

inline constexpr double kHostMemory_s = 28 * 86400.0;
inline constexpr int64_t kLemon = 2;  // signals beyond their thresholds

struct LemonScore {
  std::array<int64_t, 6> counts{};  // of the first six events
  double one_node_failure_rate = 0;
  int64_t signals = 0;  // how many of the seven are beyond their thresholds
  bool lemon() const { return signals >= kLemon; }
};
LemonScore lemon_score(const std::vector<HostRecord>& records, const std::string& host, double now_s);

// The hosts in the order in which they are to be used: as given, lemons last, the worst of them at the very end.
std::vector<std::string> order_of_use(std::vector<std::string> hosts, const std::vector<HostRecord>& records, double now_s);

}  // namespace longhaul::control
