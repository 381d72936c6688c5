// Mixers: what a layer is made of. A sequence mixer moves information between tokens, a channel mixer works on each token alone. All that
// can be said of one without a tensor is its entry, in a file of its own in recipe/mixers/. The entries are listed once, in mixers.cpp, in
// the order of their enumerations (model_config.h); whoever wants to know something of a mixer asks its entry, and nobody else tells them apart:
//
//   recipe  name, options, checks                     layout  logical tensors (layout/parameters.h)
//   plan    FLOPs, memory, state while decoding       model   makes the module: model/mixers/mixers.cpp has the other list
//
// docs/design/mixers.md says how to add one. Plain data and pure functions; thread-safe.
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

// What a logical tensor is for: its initialisation, its precision and whether it decays follow from it.
enum class Role {
  kEmbedding,
  kPosition,
  kNorm,
  kQuery,
  kKey,
  kValue,
  kGate,        // the output gate of a lightning mixer
  kForget,      // logits of forget gates
  kLowerBound,  // of forget gates, as logits over layers
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
  kCoefficient,  // a vector of numbers that a mixer computes with, as it is: kept in fp32, without decay
  kWrite,        // logits of how much a delta rule writes
  kPrediction,   // joins hidden states and the next token's embedding in a module that predicts further ahead
};

// What a tensor begins with, where its role does not say it.
enum class Fill {
  kByRole,
  kZeros,
  kFrequencies,  // element m of n: 10000^(−2m/n)                                                          TransNormerLLM
  kLogRates,     // log of numbers drawn evenly from 1 to 16                                               Mamba-2's A
  kSteps,        // what softplus makes numbers of, drawn evenly in the logarithm from 0.001 to 0.1        Mamba-2's Δ
  kTenths,       // normal numbers times 0.1                                                               LCSM
  kLogRows,      // log of the row's number, from 1 on                                                     LCSM's A
  kMean,         // 1 / columns                                                                            TPE's B
  kTimescales,   // log of rates from 16 down to 1/8, evenly in the logarithm                              TPE's λ
};

// One logical tensor of a mixer: a matrix [out, in], or a vector [out].
struct MixerTensor {
  enum class Cut { kNone, kRows, kColumns };  // over tensor ranks, in an expert over those of its own

  std::string name;  // within the layer, without ".weight": "mixer.query", "channel.up"; within an expert: "up"
  Role role = Role::kNorm;
  int64_t out = 0;
  int64_t in = 0;  // 0: a vector
  Cut cut = Cut::kNone;
  int64_t heads = 0;       // > 0: the cut deals out so many heads, whole and evenly
  bool grouped = false;    // each of them serves a group of other heads: tensor ranks that outnumber them hold copies
  bool beside = false;     // its rows stand below those of the tensor before it, and one product makes both
  bool of_expert = false;  // there is one of it in every expert
  // A vector of zeros at first, called ".bias", that training moves by a rule of its own.
  bool without_gradient = false;
  bool own_bias = false;  // a matrix with a bias, whatever model.bias says
  Fill fill = Fill::kByRole;
  double xavier_gain = 0;  // > 0, of a matrix: as Xavier has it with this gain, whatever model.initialisation says
  bool matrix() const { return in > 0; }
};

// Sizes of the operators inside a sequence mixer; 0 heads: it has none of that kind.
struct AttentionSizes {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;  // channels of a query and of a key
  int64_t rotary_dim = 0;
  int64_t value_dim = 0;
  bool causal = true;
};
struct RecurrenceSizes {
  int64_t heads = 0, key = 0, value = 0;  // the state is [heads, key, value]
  bool gated = false;                     // decays and keys are made of a gate for each key channel
  bool causal = true;                     // false: one state for a whole document (kernels/bidirectional)
};
struct DeltaRuleSizes {
  int64_t heads = 0, key_heads = 0, key = 0, value = 0;  // the state is [heads, key, value]
  bool by_channel = false;                               // a decay for each key channel
};
struct OperatorSizes {
  AttentionSizes attention;
  RecurrenceSizes recurrence;
  int64_t angles = 0;  // columns of a table of turns that all layers share, beside the rotary one
  DeltaRuleSizes delta_rule;
};

// What decoding keeps in one layer, under a name: of a sequence, whatever its length, or of each of its tokens (in pages).
struct MixerStateTensor {
  std::string name;            // "recurrence"; of tokens "keys" and "values"
  std::vector<int64_t> shape;  // of a sequence, or of a token
  bool of_token = false;
  bool wide = false;   // in the precision of sums and statistics, not the working one
  int64_t cut = 0;     // axis whose heads or channels are dealt out over tensor ranks; −1: every rank has it whole
  int64_t values = 0;  // of "keys": so many of its first channels are the values, which then have no tensor of their own
  // Along the axis that is cut, so many elements are of heads that each serve a group of others, so many: of these a tensor rank has one at least.
  int64_t grouped = 0, grouped_heads = 0;
  int64_t elements() const;
  std::vector<int64_t> shape_on(int64_t tensor_ranks) const;  // what one of so many has
};

// What plan/ knows when it asks a mixer what it takes of memory. Bytes, but for the first two.
struct BlockSizes {
  double tokens = 0, documents = 0;
  double element = 0, wide = 0;  // of an element in the working precision, and of one of sums and statistics
  double hidden = 0;             // of [tokens, hidden]
  double states = 0;             // that the recurrence keeps between segments for its backward pass
  double channels(int64_t count) const { return tokens * static_cast<double>(count) * element; }
  double norm_sums(int64_t count) const;  // partial sums of a norm's weight gradient (kernels/vector/row_blocks.h)
};

// A mixer of either kind; the norm before it is apart.
struct BlockMemory {
  double kept = 0;        // from the forward pass to this block's backward pass
  double backward = 0;    // most beside what is kept, in its backward pass: gradients, those that enter it among them
  double cheap = 0;       // of `kept`, what selective recomputation makes again
  double again = 0;       // `backward` then: with what was made again by that moment
  double workspace = 0;   // of its operators' backward pass, freed with the call; plan/ fills it in
  double evaluation = 0;  // most that its forward pass holds when nothing is kept, its input and the residual counted
};

// Tokens that no sequence may have more of, and the option that says so.
struct SequenceLimit {
  int64_t tokens = std::numeric_limits<int64_t>::max();
  std::string_view option;  // empty: there is none
};

struct SequenceMixerEntry {
  std::string_view name;                                               // in recipes: "lightning"
  bool biases = false;                                                 // its linear layers may have them
  bool bidirectional = false;                                          // it has a form for model.causal = false
  void (*declare)(OptionSet&, ModelConfig&);                           // its own options
  void (*check)(const ModelConfig&, std::vector<Problem>&) = nullptr;  // refuses what cannot be; asked where the mixer is used
  SequenceLimit (*limit)(const ModelConfig&) = nullptr;                // null: sequences may be of any length
  OperatorSizes (*operators)(const ModelConfig&);
  std::vector<MixerTensor> (*tensors)(const ModelConfig&);           // of one layer
  std::vector<MixerTensor> (*shared)(const ModelConfig&) = nullptr;  // of all layers together, where it has such; named without a layer
  std::vector<MixerStateTensor> (*state)(const ModelConfig&);        // of one layer
  BlockMemory (*memory)(const ModelConfig&, const BlockSizes&);
  struct {  // of the model's first layer, where it differs; ask operators_of_layer and its like
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
std::vector<MixerStateTensor> state_of_layer(const ModelConfig& model, int64_t layer);

SequenceLimit sequence_limit(const ModelConfig& model);    // the shortest of its mixers' and its learned positions'
std::vector<Mixer> mixers_used(const ModelConfig& model);  // each once, in the order of the layers
// Tokens along each axis of a document, behind its first one (model.lightnet.grid, of a model that has such layers); empty: documents are rows.
std::span<const int64_t> grid_of(const ModelConfig& model);

// Residual factors of one kind of mixer's own, for its entry: `group`.alpha and .beta.
void declare_factors(OptionSet& set, const std::string& group, const std::string& layers, double& alpha, double& beta);
void declare_mixers(OptionSet& set, ModelConfig& model);
void check_mixers(const ModelConfig& model, std::vector<Problem>& out);

// For entries. A matrix that makes heads from the hidden channels, one that reads them, and a vector over their channels.
MixerTensor head_rows(std::string name, Role role, int64_t heads, int64_t head_dim, int64_t in);
MixerTensor head_columns(std::string name, Role role, int64_t out, int64_t heads, int64_t head_dim);
MixerTensor head_vector(std::string name, Role role, int64_t heads, int64_t head_dim);
MixerTensor below(MixerTensor tensor);    // beside = true
MixerTensor grouped(MixerTensor tensor);  // grouped = true
// The state of a recurrence of these sizes, and keys and values of each token.
std::vector<MixerStateTensor> state_of(const RecurrenceSizes& sizes);
std::vector<MixerStateTensor> state_of(const AttentionSizes& sizes);

}  // namespace longhaul::recipe
