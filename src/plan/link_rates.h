// How fast ranks exchange: over the fast link of a node, over the network cards of nodes, and what share of these rates an exchange of a size reaches
// (SimAI's measurements). Neighbours of a group are `stride` ranks apart. Seconds, bytes.
#pragma once

#include "plan/cluster.h"

namespace longhaul::plan {

double link_message_s(const Cluster& cluster);  // latency of a collective
double network_message_s(const Cluster& cluster);

bool on_one_node(const Cluster& cluster, int64_t ranks, int64_t stride);
double members_of_a_node(const Cluster& cluster, int64_t stride);

// Of a ring over `ranks`: those of it that share a node share their network cards too.
double ring_rate(const Cluster& cluster, int64_t ranks, int64_t stride);
// Of a ring that is run for every layer's pass. Over up to 8 nodes it uses all cards of its members (LLM Foundry's FSDP); over 48 and more those of DeepSpeed
// reach one card's rate a rank, however many share the node (arXiv 2104.04473, table 2). In between in logarithms: ours. By size it gets no slower
// with more nodes than two: steps of arXiv 2504.14960, table 4, keep their share of the peak from 16 to 128 nodes.
double layer_ring_rate(const Cluster& cluster, int64_t ranks, int64_t stride);

// `bytes` over a ring of `ranks`, once round, at the rate that messages of `message` bytes reach.
double ring_seconds(double bytes, double message, int64_t ranks, int64_t stride, const Cluster& cluster);
double layer_ring_seconds(double bytes, double message, int64_t ranks, int64_t stride, const Cluster& cluster);

// On the fast link, by size where the cluster says so; where the table holds the latency it is not counted again.
double link_rate(const Cluster& cluster, double bytes);
double link_latency_s(const Cluster& cluster);

// Share of the network's rate that reductions of this size reach over so many nodes: measured by others (SimAI), interpolated in logarithms.
double network_share(double bytes, double nodes);
// Of what a rank sends to all others in parts (SimAI, 16 MiB and 1 GiB).
double all_to_all_share(double bytes, double nodes);
// Likewise on the fast link. Below 16 MiB the time is the one of 16 MiB but for the bytes: latency.
double link_share(double bytes);

}  // namespace longhaul::plan
