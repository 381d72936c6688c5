// The linear lineage as choices of one recurrence (docs/sources/linear-attention.md §1): what a mixer makes of its input for
//
//   S_t = λ_t ⊙ S_{t−1} + k_tᵀ v_t        o_t = scale · q_t S_t        out = gate(norm(o)) Wout
//
// A plan says all that can be said of such a mixer without a tensor; from it follow its logical tensors, sizes, state and memory here, and its module
// (model/mixers/recurrent_mixer.h). TransNormerLLM, RetNet, GLA, cosFormer, LightNet and MetaLA are each a function from options to a plan. Plain data.
#pragma once

#include <cstdint>
#include <vector>

#include "recipe/mixers.h"

namespace longhaul::recipe {

struct RecurrentPlan {
  enum class Map { kNone, kSilu, kRelu, kSigmoid };  // what a projection goes through
  enum class Turn {
    kNone,
    kCosine,
    kRotary
  };  // of queries and keys by positions (kernels/features/op.h): a cosine turn doubles a head's keys
  enum class Decay {
    kNone,
    kSlopes,
    kGate,
    kCumulative,
    kWhole
  };  // fixed for each head; logσ(x)/divisor; of a cumulative softmax of the keys (LightNet), and its form without an order: keys are a softmax over
      // their document, and all queries read the one sum of kᵀ v
  enum class Norm { kNone, kAll, kHeads, kHeadsCentred };  // RMSNorm over all heads' channels, or of each head; LayerNorm of each head

  int64_t heads = 0, key = 0, value = 0;  // channels of a head, before a cosine turn
  int64_t key_heads = 0;                  // heads of keys, values and decays, each of a group of query heads; 0: as many
  bool product_bias = false;              // of the product that makes queries, keys and values
  Map query_map = Map::kNone, key_map = Map::kNone, value_map = Map::kNone;
  int64_t convolution = 0;  // taps of a short convolution with silu over the mixer's input; 0: none

  Turn turn = Turn::kNone;
  bool learned_turn = false;        // its frequencies are learned: one tensor of the whole model
  std::vector<double> frequencies;  // [heads · key] of a cosine turn, [key / 2] of a rotary one; learned ones begin so
  double first_position = 0;
  int64_t longest = 0;  // tokens of a sequence, beyond which turns would weigh with another sign; 0: any number
  // Of a cosine turn, in place of frequencies: tokens along each axis of a grid that a document is behind its first token (MD-LRPE, kernels/toeplitz/grid.h).
  std::vector<int64_t> grid;

  Decay decay = Decay::kNone;
  std::vector<double> slopes;  // kSlopes: −log λ of each head
  double divisor = 1;          // kGate
  bool tied_keys = false;      // kGate: k = 1 − λ
  int64_t decay_rank = 0;      // kGate: its logits come by way of so few channels, then with a bias; 0: directly, without
  double scale = 1;

  bool denominator = false;  // o is divided by max(q · Σ k, 1e-6)
  bool self_term = false;    // o += σ((q · (k ⊙ w)) v), w learned (MetaLA)
  Norm norm = Norm::kNone;
  bool norm_weight = false;
  double norm_eps = 1e-6;
  bool gated = false;
  Map gate_map = Map::kNone;
  int64_t gate_rank = 0;     // 0: directly
  bool gate_bias = false;    // of a gate that is made directly
  double steering_gain = 0;  // > 0: queries and logits of decays begin as Xavier has it with this gain, whatever model.initialisation says

  int64_t state_keys() const { return turn == Turn::kCosine ? 2 * key : key; }
  int64_t state_values() const { return value + (denominator ? 1 : 0); }
  int64_t memory_heads() const { return key_heads > 0 ? key_heads : heads; }  // that write
  bool makes_keys() const { return !tied_keys; }                              // by a projection
};

OperatorSizes operators_of(const RecurrentPlan& plan);
std::vector<MixerTensor> tensors_of(const RecurrentPlan& plan, int64_t hidden);
std::vector<MixerStateTensor> state_of(const RecurrentPlan& plan, int64_t hidden);
BlockMemory memory_of(const RecurrentPlan& plan, int64_t hidden, const BlockSizes& size);

// What an entry says of a mixer whose layers are all planned alike.
template <RecurrentPlan (*kPlan)(const ModelConfig&)>
struct PlannedBy {
  static OperatorSizes operators(const ModelConfig& model) { return operators_of(kPlan(model)); }
  static std::vector<MixerTensor> tensors(const ModelConfig& model) { return tensors_of(kPlan(model), model.hidden); }
  static std::vector<MixerStateTensor> state(const ModelConfig& model) { return state_of(kPlan(model), model.hidden); }
  static BlockMemory memory(const ModelConfig& model, const BlockSizes& size) { return memory_of(kPlan(model), model.hidden, size); }
};

// base^(−2 m / channels) for m = 0 … count − 1.
std::vector<double> frequencies_of(int64_t count, int64_t channels, double base);

}  // namespace longhaul::recipe
