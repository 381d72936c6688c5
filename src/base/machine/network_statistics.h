// Reads the counters of a network interface under its driver's own names, as `ethtool -S` prints them, and
// finds the pause frames among them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace longhaul {

using NetworkStatistics = std::map<std::string, uint64_t>;

// The result is empty if there is no such interface or if its driver counts nothing.
NetworkStatistics network_statistics(const std::string& interface);

// The frames by which the interface asked its peer to stop sending: those of all priorities (priority flow
// control) where the driver counts them, else those of the whole link.
std::optional<uint64_t> pause_frames_sent(const NetworkStatistics& statistics);

}  // namespace longhaul
