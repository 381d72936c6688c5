// RingAttention: queries stay while keys and values go round (context_attention.h). A member of the ring
// holds some runs of the packed row, and its rows are these runs one after the other in the order of the row;
// every member knows the runs of all. Of a striped row each has every so many-th token, which makes one pair
// of a query rank and a key rank a causal block, moved by one where the keys' rank comes later. Sources: Ring
// Attention (arXiv 2310.01889); Striped Attention (arXiv 2311.09431); zig-zag and the backward pass of
// docs/sources/long-context-parallelism.md A6.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "kernels/attention/op.h"
#include "kernels/attention/visibility.h"
#include "layout/split.h"

namespace longhaul::parallel {

struct RingMember {
  int64_t rank = 0;                 // of the communicator
  std::vector<layout::Range> runs;  // of the row, or of its stripe; ascending, none empty

  int64_t tokens() const;
};

struct Ring {
  comm::Communicator* group = nullptr;
  // the order of the ring: each member sends to the next, the last to the first
  std::vector<RingMember> members;
  int64_t own = 0;              // the index of this rank among the members
  kernels::Visibility visible;  // of the whole row
  // 1: runs are of the row. More: token i of the runs of rank r is token i · stripes + r of the row.
  int64_t stripes = 1;
};

Tensor ring_attention(const Ring& ring, const Tensor& q_thd, const Tensor& k_thd, const Tensor& v_thd,
                      double scale);

}  // namespace longhaul::parallel
