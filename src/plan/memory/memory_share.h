// RankShare: the part of a layer's block on one rank of a mesh, and what its passes keep and need. In bytes,
// unless stated otherwise. exact_memory.cpp has the parts of a plan outside layers, and the order of passes.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/mesh.h"
#include "plan/memory/exact_memory.h"
#include "plan/memory/memory.h"
#include "plan/memory/memory_workspace.h"
#include "recipe/mixers.h"

namespace longhaul::plan {

// BlockShare: what the passes through a layer's block keep and need.
struct BlockShare {
  double kept = 0, backward = 0, workspace = 0;
  double stays = 0;      // the part of `kept` that train.offload leaves in memory
  double postponed = 0;  // after a backward pass of inputs: what the products for weights will read
};

// OwnTokens: the tokens of a rank in a mixer, and those of all context ranks.
struct OwnTokens {
  int64_t tokens = 0, segments = 1;
  double all = 0;
  int64_t pieces = 1;  // contiguous runs of the row
};

// The part of a rank that has the largest share.
constexpr int64_t largest_share(int64_t count, int64_t ranks) { return (count + ranks - 1) / ranks; }

struct RankShare {
  // Both are read as long as this object lives.
  RankShare(const MemoryRequest& request, const RankRequest& rank);

  BlockShare mixer(int64_t layer) const;
  BlockShare channel(int64_t layer) const;
  double norm_before(int64_t layer, bool channel) const;  // 0: a parallel block has only one norm
  double norm_statistics() const;
  // States of a recurrence over context ranks that enter its pieces; kept whatever is recomputed.
  double entering_states(int64_t layer) const;
  // Context ranks deal out the heads of recurrences and delta rules instead of tokens.
  bool deals_out_linear_heads() const {
    return cp > 1 && rank.context.linear == recipe::LinearContextMethod::kUlysses;
  }
  double last_norm() const;  // its output is not recomputed
  // Tokens travel to other ranks' experts, rather than one row for each of a token's experts, because not all
  // experts are here.
  bool tokens_travel() const;
  double tokens_that_come() const;  // then the number that come to this rank's experts; as many leave
  // The bytes that are too small for train.offload's file.
  double small(double bytes) const { return bytes < number(kLeastOffloaded) ? bytes : 0; }

  const MemoryRequest& whole;
  const RankRequest& rank;
  const layout::Mesh& mesh;
  OwnTokens own;
  MemoryRequest local;  // as if the rank's parts of model and tokens were the whole
  int64_t tp, cp;
  double hidden = 0, between = 0;  // bytes of hidden states in mixers, and between them
  double element = 0, wide = 0;    // bytes of a number, and of one in a sum

 private:
  double channels(int64_t count) const;
  double keys_and_values(const recipe::AttentionSizes& sizes) const;
  double norm(bool gathered) const;
  double norm_over_ranks(int64_t layer, const recipe::OperatorSizes& sizes, BlockShare& block) const;
  double members_of_ring(int64_t kv_heads) const;
  double members_that_see(double members) const;
  void context(const recipe::AttentionSizes& sizes, BlockShare& block) const;
  void linear_heads(const recipe::OperatorSizes& sizes, BlockShare& block) const;
  void rows_of_tokens(const MemoryRequest& rows, BlockShare& block) const;
  BlockShare chosen(const recipe::BlockMemory& memory) const;
  double products_of_weights(const std::vector<ProductWeight>& weights, double rows) const;
  bool gathers(int64_t layer, bool channel) const;
};

}  // namespace longhaul::plan
