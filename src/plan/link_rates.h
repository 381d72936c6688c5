// The speed of exchanges between ranks: over the fast link of a node, over the network cards of nodes, and
// the share of these rates that an exchange of a given size reaches (SimAI's measurements). Neighbours in a
// group are `stride` ranks apart. Units: seconds, bytes.
#pragma once

#include "plan/cluster.h"

namespace longhaul::plan {

double link_message_s(const Cluster& cluster);  // latency of a collective call
double network_message_s(const Cluster& cluster);

bool on_one_node(const Cluster& cluster, int64_t ranks, int64_t stride);
double members_of_a_node(const Cluster& cluster, int64_t stride);

// The rate of a ring over `ranks`: its ranks on one node also share the node's network cards.
double ring_rate(const Cluster& cluster, int64_t ranks, int64_t stride);
// The rate of a ring that runs for every layer's pass. Over up to 8 nodes it uses all cards of its ranks (LLM
// Foundry's FSDP); over 48 nodes and more DeepSpeed's rings reach one card's rate per rank, however many
// ranks share the node (arXiv 2104.04473, table 2). Between these it is interpolated in logarithms, which is
// our choice. With the rate by size it does not get slower beyond two nodes: steps of arXiv 2504.14960, table
// 4, keep their share of the peak from 16 to 128 nodes.
double layer_ring_rate(const Cluster& cluster, int64_t ranks, int64_t stride);

// The time for `bytes` once around a ring of `ranks`, at the rate that messages of `message` bytes reach.
double ring_seconds(double bytes, double message, int64_t ranks, int64_t stride, const Cluster& cluster);
double layer_ring_seconds(double bytes, double message, int64_t ranks, int64_t stride,
                          const Cluster& cluster);

// Rate of the fast link, by size if the cluster has by_size; if the table already contains the latency it is
// not added again.
double link_rate(const Cluster& cluster, double bytes);
double link_latency_s(const Cluster& cluster);

// Share of the network's rate that reductions of this size reach over so many nodes: measured by others
// (SimAI), interpolated in logarithms.
double network_share(double bytes, double nodes);
// The same for data that a rank sends to all others in parts (SimAI, 16 MiB and 1 GiB).
double all_to_all_share(double bytes, double nodes);
// The same on the fast link. Below 16 MiB the time stays that of 16 MiB except for the bytes, because it is
// latency.
double link_share(double bytes);

}  // namespace longhaul::plan
