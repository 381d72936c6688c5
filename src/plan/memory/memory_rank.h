// What training takes of the memory of one rank of a mesh, by purpose, at the moments of a step that can be its fullest: plan/memory/memory.h for a rank that has
// a share of the model (heads, channels, experts, vocabulary, layers), of the tokens (context ranks; tensor ranks between mixers) and of the state
// (rank_state.h). Beside what its share of the work takes:
//
//   tp   the gathered input of each block in the place of its own part of it; norms over cut channels in the precision of sums
//   cp   keys and values that a rank sees beside its own, or that go round, with their gradients
//   pp   what the schedule's list has there of other micro-batches (pipeline_memory.h)
//   ep, etp   the order of the rows that came; every rank gets as many as every other. Where tokens travel (all-gather, flex) rows in the precision of sums
//   communication   workspace of a back end: of Gloo the parts that a sum is made of
//
// Held to account by tests/run/rank_memory_test.cpp for softmax, lightning, dense mixers and experts; of other mixers the heads' share is an estimate,
// and a bound where their width is the model's. docs/design/memory.md.
#pragma once

#include "layout/mesh.h"
#include "plan/memory/memory.h"

namespace longhaul::plan {

struct RankRequest {
  layout::MeshRank place;
  recipe::ContextOptions context{};
  recipe::ExpertOptions experts{};
  bool first_worker = true;  // of an outer loop: it saves what all workers agree on
  bool processes = true;     // whose back end holds parts of sums; threads add up where these lie
};

MemoryPlan plan_rank_memory(const MemoryRequest& request, const RankRequest& rank);

}  // namespace longhaul::plan
