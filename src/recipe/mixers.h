// Mixers: the components of a layer. A sequence mixer moves information between tokens; a channel mixer works
// on each token separately. Everything about one that needs no tensor is in its entry, in a file of its own
// in recipe/mixers/. The entries are listed once, in mixers.cpp, in the order of their enumerations
// (model_config.h). All other code asks the entry of a mixer, and none distinguishes mixers itself:
//
//   recipe  name, options, checks                     layout  logical tensors (layout/parameters.h)
//   plan    FLOPs, memory, state while decoding       model   makes the module; its list is in
//                                                             model/mixers/mixers.cpp
//
// docs/design/mixers.md says how to add a mixer. Plain data and pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/architecture/model_config.h"

namespace longhaul::recipe {

struct Problem;  // recipe/check.h

// Role: the purpose of a logical tensor. Its initialisation, its precision and its weight decay follow from
// it.
enum class Role {
  kEmbedding,
  kPosition,
  kNorm,
  kQuery,
  kKey,
  kValue,
  kGate,        // the output gate of a lightning mixer
  kForget,      // logits of forget gates
  kLowerBound,  // lower bounds of forget gates, as logits over layers
  kOutput,
  kRouter,
  kExpertGate,
  kExpertUp,
  kExpertDown,
  kChannelGate,
  kChannelUp,
  kChannelDown,
  kHead,
  kBias,         // of a linear layer or a layer norm
  kConvolution,  // [channels, taps]
  // A vector of numbers with which a mixer computes directly: kept in fp32, without weight decay.
  kCoefficient,
  kWrite,  // logits of the write strength of a delta rule
  // Joins hidden states with the next token's embedding in a module that predicts further ahead.
  kPrediction,
  // Adapters of a frozen matrix [out, in] (layout/adapters.h): [rank, in], [out, rank], [out].
  kAdapterDown,
  kAdapterUp,
  kAdapterMagnitude,
};

// Fill: the initial values of a tensor whose role does not determine them.
enum class Fill {
  kByRole,
  kZeros,
  kFrequencies,  // element m of n: 10000^(−2m/n) (TransNormerLLM)
  kLogRates,     // log of numbers drawn evenly from 1 to 16 (Mamba-2's A)
  // Inverse softplus of numbers drawn evenly in the logarithm from 0.001 to 0.1 (Mamba-2's Δ).
  kSteps,
  kTenths,      // normal numbers times 0.1 (LCSM)
  kLogRows,     // log of the row's number, from 1 on (LCSM's A)
  kMean,        // 1 / columns (TPE's B)
  kTimescales,  // log of rates from 16 down to 1/8, evenly in the logarithm (TPE's λ)
};

// One logical tensor of a mixer: a matrix [out, in], or a vector [out].
struct MixerTensor {
  enum class Cut { kNone, kRows, kColumns };  // cut over tensor ranks; in an expert over its own tensor ranks

  std::string name;  // Name in the layer, without ".weight": "mixer.query", "channel.up"; in an expert: "up".
  Role role = Role::kNorm;
  int64_t out = 0;
  int64_t in = 0;  // 0: a vector
  Cut cut = Cut::kNone;
  int64_t heads = 0;  // > 0: the cut distributes so many heads, whole and evenly
  // Each head serves a group of other heads; if there are more tensor ranks than heads, ranks hold copies.
  bool grouped = false;
  bool beside = false;     // its rows follow those of the tensor before it, and one product computes both
  bool of_expert = false;  // every expert has one
  // An initially zero vector named ".bias" that training moves by a rule of its own, without a gradient.
  bool without_gradient = false;
  bool own_bias = false;  // a matrix with a bias, whatever model.bias is
  Fill fill = Fill::kByRole;
  // > 0, for a matrix: Xavier initialisation with this gain, whatever model.initialisation is.
  double xavier_gain = 0;
  bool matrix() const { return in > 0; }
};

// Sizes of the operators in a sequence mixer; 0 heads: it has no such operator.
struct AttentionSizes {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;  // channels of a query and of a key
  int64_t rotary_dim = 0;
  int64_t value_dim = 0;
  bool causal = true;
};
struct RecurrenceSizes {
  int64_t heads = 0, key = 0, value = 0;  // the state is [heads, key, value]
  bool gated = false;                     // decays and keys are computed from a gate for each key channel
  bool causal = true;                     // false: one state for a whole document (kernels/bidirectional)
  bool sums_beside = false;               // the mixer has a second recurrence, of one head
};
struct DeltaRuleSizes {
  int64_t heads = 0, key_heads = 0, key = 0, value = 0;  // the state is [heads, key, value]
  bool by_channel = false;                               // a decay for each key channel
};
struct OperatorSizes {
  AttentionSizes attention;
  RecurrenceSizes recurrence;
  // Columns of a table of rotation angles that all layers share, in addition to the rotary one.
  int64_t angles = 0;
  DeltaRuleSizes delta_rule;
};

// MixerStateTensor: a tensor that decoding keeps in one layer, either per sequence (whatever its length) or
// per token (in pages).
struct MixerStateTensor {
  std::string name;            // "recurrence"; for tokens "keys" and "values"
  std::vector<int64_t> shape;  // per sequence, or per token
  bool of_token = false;
  bool wide = false;  // in the precision of sums and statistics, not in the working precision
  // Axis whose heads or channels are distributed over tensor ranks; −1: every rank has the whole tensor.
  int64_t cut = 0;
  // For "keys": number of first channels that are also the values, which then have no tensor of their own.
  int64_t values = 0;
  // Along the cut axis, `grouped` elements belong to `grouped_heads` heads that each serve a group of other
  // heads; a tensor rank has at least one of them.
  int64_t grouped = 0, grouped_heads = 0;
  int64_t elements() const;
  std::vector<int64_t> shape_on(int64_t tensor_ranks) const;  // the shape on one of so many ranks
};

// BlockSizes: the sizes that plan/ gives to a mixer when it asks for its memory. In bytes, except the first
// two.
struct BlockSizes {
  double tokens = 0, documents = 0;
  // Bytes of an element in the working precision, and of one of sums and statistics.
  double element = 0, wide = 0;
  double hidden = 0;  // bytes of [tokens, hidden]
  double states = 0;  // states that the recurrence keeps between segments for its backward pass
  double channels(int64_t count) const { return tokens * static_cast<double>(count) * element; }
  // Partial sums of a norm's weight gradient (kernels/vector/row_blocks.h).
  double norm_sums(int64_t count) const;
};

// BlockMemory: the memory of a mixer of either kind; the norm before it is counted separately.
struct BlockMemory {
  double kept = 0;      // kept from the forward pass to this block's backward pass
  double backward = 0;  // Peak beside `kept` in its backward pass: gradients, including the incoming ones.
  double cheap = 0;     // the part of `kept` that selective recomputation computes again
  // `backward` with selective recomputation: including what has been recomputed by then
  double again = 0;
  double workspace = 0;  // Workspace of its operators' backward pass, freed with the call; plan/ fills it in.
  // Peak of its forward pass when nothing is kept, including its input and the residual.
  double evaluation = 0;
};

// SequenceLimit: the largest number of tokens in a sequence, and the option that sets it.
struct SequenceLimit {
  int64_t tokens = std::numeric_limits<int64_t>::max();
  std::string_view option;  // empty: there is none
};

struct SequenceMixerEntry {
  std::string_view name;       // in recipes: "lightning"
  bool biases = false;         // its linear layers may have biases
  bool bidirectional = false;  // it has a form for model.causal = false
  // Tokens meet in softmax attention and nowhere else, so a rank may hold any of them in any order.
  bool attention_alone = false;
  void (*declare)(OptionSet&, ModelConfig&);  // declares its own options
  // Refuses impossible options; called where the mixer is used.
  void (*check)(const ModelConfig&, std::vector<Problem>&) = nullptr;
  SequenceLimit (*limit)(const ModelConfig&) = nullptr;  // null: sequences may be of any length
  OperatorSizes (*operators)(const ModelConfig&);
  std::vector<MixerTensor> (*tensors)(const ModelConfig&);  // of one layer
  // Of all layers together, if there are any; named without a layer.
  std::vector<MixerTensor> (*shared)(const ModelConfig&) = nullptr;
  std::vector<MixerStateTensor> (*state)(const ModelConfig&);  // of one layer
  BlockMemory (*memory)(const ModelConfig&, const BlockSizes&);
  struct {  // For the model's first layer, where it differs; ask operators_of_layer and similar functions.
    OperatorSizes (*operators)(const ModelConfig&) = nullptr;
    std::vector<MixerStateTensor> (*state)(const ModelConfig&) = nullptr;
    BlockMemory (*memory)(const ModelConfig&, const BlockSizes&) = nullptr;
  } of_first_layer{};
};

struct ChannelMixerEntry {
  std::string_view name;  // in messages: "experts"
  bool (*biases)(const ModelConfig&);
  void (*declare)(OptionSet&, ModelConfig&) = nullptr;
  void (*check)(const ModelConfig&, std::vector<Problem>&) = nullptr;
  std::vector<MixerTensor> (*tensors)(const ModelConfig&);
  BlockMemory (*memory)(const ModelConfig&, const BlockSizes&);
};

const SequenceMixerEntry& entry_of(Mixer mixer);
const ChannelMixerEntry& entry_of(ChannelMixer mixer);

OperatorSizes operators_of_layer(const ModelConfig& model, int64_t layer);
// The number of heads whose states pass from token to token apart from each other, in groups where heads
// share keys, so that ranks may each take some; 0: no state does.
int64_t linear_heads(const OperatorSizes& sizes);
std::vector<MixerStateTensor> state_of_layer(const ModelConfig& model, int64_t layer);

// The smallest limit of its mixers and its learned positions.
SequenceLimit sequence_limit(const ModelConfig& model);
std::vector<Mixer> mixers_used(const ModelConfig& model);  // each once, in the order of the layers
// Tokens along each axis of a document, after its first token (model.lightnet.grid, if the model has such
// layers); empty: documents are rows.
std::span<const int64_t> grid_of(const ModelConfig& model);

// Declares the residual factors of one kind of mixer, for its entry: `group`.alpha and .beta.
void declare_factors(OptionSet& set, const std::string& group, const std::string& layers, double& alpha,
                     double& beta);
void declare_mixers(OptionSet& set, ModelConfig& model);
void check_mixers(const ModelConfig& model, std::vector<Problem>& out);

// Helpers for entries: a matrix that makes heads from the hidden channels, one that reads heads, and a vector
// over their channels.
MixerTensor head_rows(std::string name, Role role, int64_t heads, int64_t head_dim, int64_t in);
MixerTensor head_columns(std::string name, Role role, int64_t out, int64_t heads, int64_t head_dim);
MixerTensor head_vector(std::string name, Role role, int64_t heads, int64_t head_dim);
MixerTensor below(MixerTensor tensor);    // beside = true
MixerTensor grouped(MixerTensor tensor);  // grouped = true
// The state of a recurrence of these sizes, and the keys and values of each token.
std::vector<MixerStateTensor> state_of(const RecurrenceSizes& sizes);
std::vector<MixerStateTensor> state_of(const AttentionSizes& sizes);

}  // namespace longhaul::recipe
