#include "plan/link_rates.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace longhaul::plan {
namespace {

constexpr double kNodesOfAllCards = 8, kNodesOfOneCard = 48;

double nodes_of_ring(const Cluster& cluster, int64_t ranks, int64_t stride) {
  return static_cast<double>(ranks) / members_of_a_node(cluster, stride);
}

// `nodes`: selects the column of the network's table.
double seconds_at(double rate, double bytes, double message, int64_t ranks, int64_t stride, double nodes,
                  const Cluster& cluster) {
  if (ranks <= 1 || bytes <= 0) return 0;
  const double n = static_cast<double>(ranks);
  const double share = !cluster.efficiency.by_size           ? 1
                       : on_one_node(cluster, ranks, stride) ? link_share(message)
                                                             : network_share(message, nodes);
  return bytes * (n - 1) / n / (rate * share);
}

}  // namespace

double link_message_s(const Cluster& cluster) { return cluster.efficiency.message_s; }
double network_message_s(const Cluster& cluster) { return 2 * cluster.efficiency.message_s; }

bool on_one_node(const Cluster& cluster, int64_t ranks, int64_t stride) {
  return ranks * stride <= cluster.device.node;
}
double members_of_a_node(const Cluster& cluster, int64_t stride) {
  return static_cast<double>(std::max<int64_t>(1, cluster.device.node / stride));
}

double ring_rate(const Cluster& cluster, int64_t ranks, int64_t stride) {
  if (on_one_node(cluster, ranks, stride)) return cluster.device.link_rate;
  return std::min(cluster.device.link_rate, members_of_a_node(cluster, stride) * cluster.device.nic_rate);
}

double layer_ring_rate(const Cluster& cluster, int64_t ranks, int64_t stride) {
  if (on_one_node(cluster, ranks, stride)) return cluster.device.link_rate;
  const double all = std::log(kNodesOfOneCard / nodes_of_ring(cluster, ranks, stride)) /
                     std::log(kNodesOfOneCard / kNodesOfAllCards);
  const double cards = std::pow(members_of_a_node(cluster, stride), std::clamp(all, 0.0, 1.0));
  return std::min(cluster.device.link_rate, cards * cluster.device.nic_rate);
}

double ring_seconds(double bytes, double message, int64_t ranks, int64_t stride, const Cluster& cluster) {
  return seconds_at(ring_rate(cluster, ranks, stride), bytes, message, ranks, stride,
                    nodes_of_ring(cluster, ranks, stride), cluster);
}

double layer_ring_seconds(double bytes, double message, int64_t ranks, int64_t stride,
                          const Cluster& cluster) {
  constexpr double kFewestNodes = 2;
  return seconds_at(layer_ring_rate(cluster, ranks, stride), bytes, message, ranks, stride, kFewestNodes,
                    cluster);
}

double link_rate(const Cluster& cluster, double bytes) {
  return cluster.device.link_rate * (cluster.efficiency.by_size ? link_share(bytes) : 1);
}
double link_latency_s(const Cluster& cluster) {
  return cluster.efficiency.by_size ? 0 : link_message_s(cluster);
}

double network_share(double bytes, double nodes) {
  constexpr std::array<std::array<double, 7>, 6> kShare = {
      {{.32, .24, .13, .05, .044, .021, .0087},
       {.50, .53, .39, .21, .106, .051, .044},
       {.85, .77, .69, .57, .387, .209, .103},
       {.92, .93, .90, .76, .74, .563, .315},
       {.95, .95, .95, .95, .923, .755, .740},
       {.96, .96, .96, .96, .957, .958, .919}}};  // 16 MiB to 16 GiB × 4; 2 to 128 nodes × 2
  const double x = std::clamp((std::log2(std::max(bytes, 1.0)) - 24) / 2, 0.0, 5.0),
               y = std::clamp(std::log2(std::max(nodes, 1.0)) - 1, 0.0, 6.0);
  const size_t i = std::min<size_t>(static_cast<size_t>(x), 4),
               j = std::min<size_t>(static_cast<size_t>(y), 5);
  const double fx = x - static_cast<double>(i), fy = y - static_cast<double>(j);
  const auto across = [&](size_t row) { return kShare[row][j] * (1 - fy) + kShare[row][j + 1] * fy; };
  return across(i) * (1 - fx) + across(i + 1) * fx;
}

double link_share(double bytes) {
  // 16 MiB to 16 GiB × 4; the value of 4 GiB is interpolated.
  constexpr std::array<double, 6> kShare = {.45, .65, .73, .77, .79, .81};
  constexpr double kSmallest = 1 << 24;
  if (bytes < kSmallest) return bytes / (bytes + kSmallest * (1 / kShare[0] - 1));
  const double x = std::min((std::log2(bytes) - 24) / 2, 5.0);
  const size_t i = std::min<size_t>(static_cast<size_t>(x), 4);
  const double fx = x - static_cast<double>(i);
  return kShare[i] * (1 - fx) + kShare[i + 1] * fx;
}

double all_to_all_share(double bytes, double nodes) {
  constexpr std::array<double, 5> kSmall = {.44, .52, .67, .64, .62},
                                  kLarge = {.74, .81, .94, .92, .85};  // 16 MiB, 1 GiB; 1 to 16 nodes × 2
  constexpr double kSmallest = 1 << 24;
  const double y = std::clamp(std::log2(std::max(nodes, 1.0)), 0.0, 4.0),
               x = std::clamp((std::log2(std::max(bytes, 1.0)) - 24) / 6, 0.0, 1.0);
  const size_t j = std::min<size_t>(static_cast<size_t>(y), 3);
  const auto across = [&](const std::array<double, 5>& row) {
    return row[j] + (row[j + 1] - row[j]) * (y - static_cast<double>(j));
  };
  const double small = across(kSmall), share = small * (1 - x) + across(kLarge) * x;
  return bytes < kSmallest ? bytes / (bytes + kSmallest * (1 / small - 1)) : share;
}

}  // namespace longhaul::plan
