#include "base/machine/network_statistics.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <vector>

namespace longhaul {
namespace {

constexpr uint32_t kMostCounters = 65'536;

bool ask(int socket, const std::string& interface, void* question) {
  ifreq request{};
  std::memcpy(request.ifr_name, interface.data(), interface.size());
  request.ifr_data = static_cast<char*>(question);
  return ::ioctl(socket, SIOCETHTOOL, &request) == 0;
}

// The kernel's answers have a head, followed by as many entries as it says.
template <class Head>
Head* answer_in(std::vector<uint64_t>& memory, size_t bytes_behind) {
  memory.assign((sizeof(Head) + bytes_behind) / sizeof(uint64_t) + 1, 0);
  return reinterpret_cast<Head*>(memory.data());
}

uint32_t counters_of(int socket, const std::string& interface) {
  std::vector<uint64_t> memory;
  auto* const info = answer_in<ethtool_sset_info>(memory, sizeof(uint32_t));
  info->cmd = ETHTOOL_GSSET_INFO;
  info->sset_mask = uint64_t{1} << ETH_SS_STATS;
  if (!ask(socket, interface, info) || info->sset_mask == 0) return 0;
  return std::min(info->data[0], kMostCounters);
}

NetworkStatistics read_all(int socket, const std::string& interface) {
  const uint32_t count = counters_of(socket, interface);
  if (count == 0) return {};
  std::vector<uint64_t> of_names, of_values;
  auto* const names = answer_in<ethtool_gstrings>(of_names, size_t{count} * ETH_GSTRING_LEN);
  names->cmd = ETHTOOL_GSTRINGS;
  names->string_set = ETH_SS_STATS;
  names->len = count;
  auto* const values = answer_in<ethtool_stats>(of_values, size_t{count} * sizeof(uint64_t));
  values->cmd = ETHTOOL_GSTATS;
  values->n_stats = count;
  if (!ask(socket, interface, names) || !ask(socket, interface, values)) return {};
  NetworkStatistics statistics;
  for (uint32_t i = 0; i < std::min({count, names->len, values->n_stats}); ++i) {
    const char* const begin = reinterpret_cast<const char*>(names->data) + size_t{i} * ETH_GSTRING_LEN;
    statistics.emplace(std::string(begin, ::strnlen(begin, ETH_GSTRING_LEN)), values->data[i]);
  }
  return statistics;
}

bool has(std::string_view name, std::string_view part) { return name.find(part) != std::string_view::npos; }

// "tx_prio3_pause" (mlx5), "tx_pfc_ena_frames_pri3" (bnxt), "tx_priority_3_xoff" (ice, i40e); not how long
// they lasted.
bool counts_priority_pauses(std::string_view name) {
  if (!has(name, "tx") || name.ends_with("_duration") || name.ends_with("_transition") || has(name, "xon"))
    return false;
  return (has(name, "prio") && (has(name, "pause") || has(name, "xoff"))) ||
         has(name, "tx_pfc_ena_frames_pri");
}

constexpr std::array<std::string_view, 5> kOfTheLink = {
    "tx_pfc_frames", "tx_pause_ctrl_phy", "tx_global_pause", "tx_pause_frames", "tx_flow_control_xoff"};

}  // namespace

NetworkStatistics network_statistics(const std::string& interface) {
  if (interface.empty() || interface.size() >= IFNAMSIZ) return {};
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return {};
  NetworkStatistics statistics = read_all(socket, interface);
  ::close(socket);
  return statistics;
}

std::optional<uint64_t> pause_frames_sent(const NetworkStatistics& statistics) {
  std::optional<uint64_t> sum;
  for (const auto& [name, value] : statistics) {
    if (counts_priority_pauses(name)) sum = sum.value_or(0) + value;
  }
  if (sum) return sum;
  for (const std::string_view name : kOfTheLink) {
    if (const auto found = statistics.find(std::string(name)); found != statistics.end())
      return found->second;
  }
  return std::nullopt;
}

}  // namespace longhaul
