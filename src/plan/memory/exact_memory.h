// The exact model of a rank's memory (search_memory.h has the fast one, for searches).
//
// The memory plan of training for one rank of a mesh, by purpose, at those moments of a step that can be the
// fullest: plan/memory/memory.h for a rank that has a share of the model (heads, channels, experts,
// vocabulary, layers), of the tokens (context ranks; tensor ranks between mixers) and of the state
// (state_bytes.h). In addition to its share of the work it counts:
//
//   tp   the gathered input of each block instead of the rank's own part; norms over cut channels in the
//        precision of sums
//   cp   keys and values of other ranks that a rank sees, or that travel around a ring, with their gradients
//   pp   what the schedule's list has at that time of other micro-batches (pipeline_memory.h)
//   ep, etp   the order of the received rows; every rank gets the same number. Where tokens travel
//             (all-gather,
//        flex), rows in the precision of sums
//   communication   workspace of a back end: for Gloo the parts from which a sum is made
//
// tests/run/memory/rank_memory_test.cpp checks it for softmax, lightning, dense mixers and experts. For
// other mixers the share of the heads is an estimate, and an upper bound where their width is the model's.
// docs/design/memory.md.
#pragma once

#include "layout/mesh.h"
#include "plan/memory/memory.h"

namespace longhaul::plan {

struct RankRequest {
  layout::MeshRank place;
  recipe::ContextOptions context{};
  recipe::ExpertOptions experts{};
  bool first_worker = true;  // of an outer loop: the first island saves what all islands agree on
  bool processes = true;     // processes have a back end that holds parts of sums; threads add in place
};

MemoryPlan exact_rank_memory(const MemoryRequest& request, const RankRequest& rank);

}  // namespace longhaul::plan
