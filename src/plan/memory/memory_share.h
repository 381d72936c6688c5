// RankShare: what of a layer's block lies on one rank of a mesh, what its passes keep and hold. Bytes, where nothing else is said. The parts of a plan
// beside layers, and the order of passes, are memory_rank.cpp's.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/mesh.h"
#include "plan/memory/memory.h"
#include "plan/memory/memory_rank.h"
#include "plan/memory/memory_workspace.h"
#include "recipe/mixers.h"

namespace longhaul::plan {

// What the passes through a layer's block keep and hold.
struct BlockShare {
  double kept = 0, backward = 0, workspace = 0;
  double stays = 0;      // of `kept`, what train.offload leaves in memory
  double postponed = 0;  // behind a backward pass of inputs: what the products for weights will read
};

// The tokens of a rank inside a mixer, and those of all context ranks.
struct OwnTokens {
  int64_t tokens = 0, segments = 1;
  double all = 0;
  int64_t pieces = 1;  // runs of the row
};

// The part that falls to a rank with as much as any.
constexpr int64_t largest_share(int64_t count, int64_t ranks) { return (count + ranks - 1) / ranks; }

struct RankShare {
  RankShare(const MemoryRequest& request, const RankRequest& rank);  // both are read for as long as this is there

  BlockShare mixer(int64_t layer) const;
  BlockShare channel(int64_t layer) const;
  double norm_before(int64_t layer, bool channel) const;  // 0: a parallel block has one
  double norm_statistics() const;
  double entering_states(int64_t layer) const;  // of a recurrence over context ranks, whatever is made again: those that enter its pieces
  double last_norm() const;                     // whose output nobody makes again
  bool tokens_travel() const;       // to other ranks' experts, and not a row for each of a token's experts; which are not all here
  double tokens_that_come() const;  // to this rank's experts then, and as many go
  // What is not worth a place in train.offload's file.
  double small(double bytes) const { return bytes < number(kLeastOffloaded) ? bytes : 0; }

  const MemoryRequest& whole;
  const RankRequest& rank;
  const layout::Mesh& mesh;
  OwnTokens own;
  MemoryRequest local;  // as if what the rank has of the model and the tokens were all there is
  int64_t tp, cp;
  double hidden = 0, between = 0;  // of hidden states inside mixers, and between them
  double element = 0, wide = 0;    // of a number, and of one of a sum

 private:
  double channels(int64_t count) const;
  double keys_and_values(const recipe::AttentionSizes& sizes) const;
  double norm(bool gathered) const;
  double norm_over_ranks(int64_t layer, const recipe::OperatorSizes& sizes, BlockShare& block) const;
  double members_of_ring(int64_t kv_heads) const;
  double members_that_see(double members) const;
  void context(const recipe::AttentionSizes& sizes, BlockShare& block) const;
  void rows_of_tokens(const MemoryRequest& rows, BlockShare& block) const;
  BlockShare chosen(const recipe::BlockMemory& memory) const;
  double products_of_weights(const std::vector<ProductWeight>& weights, double rows) const;
  bool gathers(int64_t layer, bool channel) const;
};

}  // namespace longhaul::plan
