// The linear attention family as variants of one recurrence (docs/sources/linear-attention.md §1): how a
// mixer computes the parts of
//
//   S_t = λ_t ⊙ S_{t−1} + k_tᵀ v_t        o_t = scale · q_t S_t        out = gate(norm(o)) Wout
//
// A plan describes such a mixer without a tensor. Its logical tensors, sizes, state and memory are derived
// from the plan here, and so is its module (model/mixers/recurrent_mixer.h). TransNormerLLM, RetNet, GLA,
// cosFormer, LightNet and MetaLA are each a function from options to a plan. Plain data.
#pragma once

#include <cstdint>
#include <vector>

#include "recipe/mixers.h"

namespace longhaul::recipe {

struct RecurrentPlan {
  enum class Map { kNone, kSilu, kRelu, kSigmoid };  // function applied to a projection
  enum class Turn {
    kNone,
    kCosine,
    kRotary
  };  // rotation of queries and keys by positions (kernels/feature_maps/op.h); kCosine doubles a head's keys
  // kSlopes: fixed for each head. kGate: logσ(x)/divisor. kCumulative: from a cumulative softmax of the keys
  // (LightNet). kWhole: its form without an order: keys are a softmax over their document, and all queries
  // read the one sum of kᵀ v.
  enum class Decay { kNone, kSlopes, kGate, kCumulative, kWhole };
  // kAll: RMSNorm over the channels of all heads. kHeads: RMSNorm of each head. kHeadsCentred: LayerNorm of
  // each head.
  enum class Norm { kNone, kAll, kHeads, kHeadsCentred };

  int64_t heads = 0, key = 0, value = 0;  // channels of a head, before a cosine rotation
  // heads of keys, values and decays, each for a group of query heads; 0: as many
  int64_t key_heads = 0;
  bool product_bias = false;  // bias of the product that makes queries, keys and values
  Map query_map = Map::kNone, key_map = Map::kNone, value_map = Map::kNone;
  int64_t convolution = 0;  // taps of a short convolution with silu over the mixer's input; 0: none

  Turn turn = Turn::kNone;
  bool learned_turn = false;  // its frequencies are learned: one tensor for the whole model
  // [heads · key] for a cosine turn, [key / 2] for a rotary one; initial values if learned.
  std::vector<double> frequencies;
  double first_position = 0;
  // Longest sequence in tokens; after it the cosine would change its sign; 0: any length.
  int64_t longest = 0;
  // For a cosine turn, in place of frequencies: tokens along each axis of the grid that a document is after
  // its first token (MD-LRPE, kernels/toeplitz/grid.h).
  std::vector<int64_t> grid;

  Decay decay = Decay::kNone;
  std::vector<double> slopes;  // kSlopes: −log λ of each head
  double divisor = 1;          // kGate
  bool tied_keys = false;      // kGate: k = 1 − λ
  // kGate: rank of the projection to the logits, which then has a bias; 0: a full projection without bias.
  int64_t decay_rank = 0;
  double scale = 1;

  bool denominator = false;  // o is divided by max(q · Σ k, 1e-6)
  bool self_term = false;    // o += σ((q · (k ⊙ w)) v), w learned (MetaLA)
  Norm norm = Norm::kNone;
  bool norm_weight = false;
  double norm_eps = 1e-6;
  bool gated = false;
  Map gate_map = Map::kNone;
  int64_t gate_rank = 0;   // 0: a full projection
  bool gate_bias = false;  // for a gate with a full projection
  // > 0: queries and logits of decays have Xavier initialisation with this gain, whatever
  // model.initialisation is.
  double steering_gain = 0;

  int64_t state_keys() const { return turn == Turn::kCosine ? 2 * key : key; }
  int64_t state_values() const { return value + (denominator ? 1 : 0); }
  int64_t memory_heads() const { return key_heads > 0 ? key_heads : heads; }  // heads that write
  bool makes_keys() const { return !tied_keys; }                              // by a projection
};

OperatorSizes operators_of(const RecurrentPlan& plan);
std::vector<MixerTensor> tensors_of(const RecurrentPlan& plan, int64_t hidden);
std::vector<MixerStateTensor> state_of(const RecurrentPlan& plan, int64_t hidden);
BlockMemory memory_of(const RecurrentPlan& plan, int64_t hidden, const BlockSizes& size);

// PlannedBy: the functions of an entry for a mixer whose layers all have the same plan.
template <RecurrentPlan (*kPlan)(const ModelConfig&)>
struct PlannedBy {
  static OperatorSizes operators(const ModelConfig& model) { return operators_of(kPlan(model)); }
  static std::vector<MixerTensor> tensors(const ModelConfig& model) {
    return tensors_of(kPlan(model), model.hidden);
  }
  static std::vector<MixerStateTensor> state(const ModelConfig& model) {
    return state_of(kPlan(model), model.hidden);
  }
  static BlockMemory memory(const ModelConfig& model, const BlockSizes& size) {
    return memory_of(kPlan(model), model.hidden, size);
  }
};

// base^(−2 m / channels) for m = 0 … count − 1.
std::vector<double> frequencies_of(int64_t count, int64_t channels, double base);

}  // namespace longhaul::recipe
