// What the driver of a network interface counts, by its own names (as `ethtool -S` prints it), and of that the pause frames that it sent.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace longhaul {

using NetworkStatistics = std::map<std::string, uint64_t>;

// Empty: there is no such interface, or its driver counts nothing.
NetworkStatistics network_statistics(const std::string& interface);

// Frames by which it asked its peer to stop sending: of all priorities (priority flow control) where they are counted, else of the whole link.
std::optional<uint64_t> pause_frames_sent(const NetworkStatistics& statistics);

}  // namespace longhaul
