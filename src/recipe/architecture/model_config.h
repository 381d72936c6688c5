// ModelConfig: the shape of a model, as written under [model] in a recipe or preset. Plain data. The range,
// unit and sentence of every option are declared in model_config.cpp, or in the file of the mixer that has it
// (recipe/mixers/). Layer l uses mixers[l % mixers.size()].
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/architecture/adapters.h"
#include "recipe/architecture/spikes.h"
#include "recipe/channels/experts.h"
#include "recipe/mixers/delta_net.h"
#include "recipe/mixers/hgrn.h"
#include "recipe/mixers/hgrn2.h"
#include "recipe/mixers/lcsm.h"
#include "recipe/mixers/lightning.h"
#include "recipe/mixers/mamba2.h"
#include "recipe/mixers/mixture.h"
#include "recipe/mixers/mla.h"
#include "recipe/mixers/names.h"
#include "recipe/mixers/recurrent/cosformer.h"
#include "recipe/mixers/recurrent/gla.h"
#include "recipe/mixers/recurrent/lightnet.h"
#include "recipe/mixers/recurrent/metala.h"
#include "recipe/mixers/recurrent/retnet.h"
#include "recipe/mixers/recurrent/tnl.h"
#include "recipe/mixers/softmax.h"

namespace longhaul::recipe {

class OptionSet;

// Values are in the order of the list in mixers.cpp.
enum class ChannelMixer { kDense, kExperts, kNone };
enum class Norm { kRms, kLayer, kSimpleRms };  // simple: without weights (TransNormerLLM)
enum class Channel {
  kSwiglu,
  kGelu,
  kGlu,
  kNone
};  // gelu: up, tanh-GeLU, down (GPT-2); glu: SwiGLU without silu; none: layers without one (Mamba-2)
// post: residual = the normalised tensor times alpha (DeepNorm, docs/sources/minimax-01.md §2.1). parallel:
// both mixers read the same norm's output (docs/sources/megascale.md §2.1).
enum class Wiring { kPreNorm, kPostNorm, kParallel };
enum class Position { kRotary, kLearned, kNone };
enum class Initialisation { kXavierDeepnorm, kNormal };

// The names in recipes, in the order of the values.
std::vector<std::string_view> names_of(Norm);
std::vector<std::string_view> names_of(Channel);
std::vector<std::string_view> names_of(Wiring);
std::vector<std::string_view> names_of(Position);
std::vector<std::string_view> names_of(Initialisation);

struct ModelConfig {
  std::string preset;  // the preset (presets/*/NAME.toml) that gave the defaults; empty: none
  // Its public tensor names are used by import and export (recipe/architecture/families.h).
  std::string family = "longhaul";

  int64_t layers = 8;
  int64_t hidden = 512;
  int64_t vocabulary = 32000;  // rows of the embedding; the tokenizer may use fewer
  int64_t heads = 8;
  int64_t head_dim = 64;
  std::vector<Mixer> mixers = {Mixer::kSoftmax};  // pattern repeated over the layers
  // false: every token reads all tokens of its document, later ones too
  bool causal = true;
  SoftmaxOptions softmax;  // options of one mixer each
  LightningOptions lightning;
  Hgrn2Options hgrn2;
  TnlOptions tnl;
  RetnetOptions retnet;
  GlaOptions gla;
  CosformerOptions cosformer;
  Cosformer2Options cosformer2;
  LightnetOptions lightnet;
  MetalaOptions metala;
  Mamba2Options mamba2;
  HgrnOptions hgrn;
  GatedDeltaNetOptions gated_deltanet;
  KdaOptions kda;
  DeltaNetOptions deltanet;
  LcsmOptions lcsm;
  MixtureOptions mixture;
  MlaOptions mla;

  Channel channel = Channel::kSwiglu;
  int64_t intermediate = 2048;  // width of one expert, or of the dense channel mixer
  int64_t experts = 0;          // 0: dense
  int64_t experts_per_token = 2;
  // In a model with experts: layers, counted from 0, whose channel mixer is dense.
  std::vector<int64_t> dense_layers;
  int64_t dense_intermediate = 0;  // width of these layers; 0: intermediate
  // Experts that every token uses in addition to the chosen ones, computed as one channel mixer of their
  // total width.
  int64_t shared_experts = 0;
  int64_t shared_intermediate = 0;  // width of one; 0: intermediate
  // their output is multiplied by σ of a learned linear function of each token
  bool shared_gate = false;
  // Coefficient of the balance loss in the form of router.balance_form (model/experts/router_balance.h).
  double auxiliary_loss = 0.01;
  double z_loss = 0.0;  // coefficient of mean (logsumexp of router logits)²
  RouterOptions router;

  Norm norm = Norm::kRms;
  double norm_eps = 1e-5;
  Wiring wiring = Wiring::kPreNorm;
  // residual factor; 0: (2·layers)^0.25 for post-norm, 1 for pre-norm
  double alpha = 0;
  double beta = 1;                             // branch factor
  double channel_alpha = 0, channel_beta = 0;  // after channel mixers; 0: alpha and beta

  Position position = Position::kRotary;
  int64_t max_positions = 0;  // learned positions: rows of the table; rotary: 0 = no limit
  // Exponentials of the embeddings' Toeplitz position encoding (recipe/architecture/toeplitz.h); 0: none.
  int64_t toeplitz = 0;
  bool bias = false;  // on every linear layer and layer norm (GPT-2)
  bool tie_embeddings = false;

  Initialisation initialisation = Initialisation::kXavierDeepnorm;
  double initial_std = 0.02;  // kNormal only

  // Modules after the last layer, each of which predicts one token further ahead, and the weight of the mean
  // of their losses.
  int64_t predict_ahead = 0;
  double predict_ahead_weight = 0.3;

  // Patterns of tensors that keep their values in training (train.freeze; layout/freezing.h). They stand with
  // the shape because every list of the model's tensors marks those, for modules and plans alike.
  std::vector<std::string> frozen;
  // Adapters beside frozen weights ([lora]); in the list of tensors like all others, for the same reason.
  AdapterOptions lora;
  // Inputs of the layers' matrices as whole numbers of spikes ([spikes]).
  SpikeOptions spikes;
  bool freezes() const { return !frozen.empty() || lora.wanted(); }  // whether some tensors do not train

  // > 0: muP; initialisation and learning rates follow a model of this width (layout/width.h).
  int64_t mup_base_hidden = 0;

  Mixer mixer(int64_t layer) const { return mixers[static_cast<size_t>(layer) % mixers.size()]; }
  ChannelMixer channel_mixer(int64_t layer) const;
  std::vector<ChannelMixer> channel_mixers_used() const;  // each once, in the order of the layers
  int64_t dense_width() const {
    return experts > 0 && dense_intermediate > 0 ? dense_intermediate : intermediate;
  }
  int64_t shared_width() const {
    return shared_experts * (shared_intermediate > 0 ? shared_intermediate : intermediate);
  }
  // Whether a sequence's result in training depends on the other sequences of the step; then replicas
  // communicate within a layer.
  bool shares_batch() const {
    return shares_room() || (experts > 0 && auxiliary_loss > 0 && router.balance_of != BalanceOf::kSequence);
  }
  // Whether it depends on all of them at once, with one micro-batch for each replica.
  bool takes_batch_at_once() const {
    return shares_room() || (experts > 0 && auxiliary_loss > 0 && router.balance_of == BalanceOf::kBatch);
  }
  bool shares_room() const {
    return experts > 0 && router.capacity_factor > 0 && router.capacity_of != CapacityOf::kSequence;
  }
  bool joins_routers() const {
    return experts > 0 && auxiliary_loss > 0 && router.balance_form == BalanceForm::kHuggingFace;
  }
  int64_t routers() const;  // number of layers with a router
  // The factor by which a form of the balance loss multiplies coefficient · Σ_e (share of the choices) · Σ_t
  // p of a router.
  double balance_factor(BalanceForm form) const;
  // The coefficient of another form with equal gradients, if the experts of all layers have the same shares
  // of the choices.
  double auxiliary_loss_as(BalanceForm form) const;
  double width_factor() const;  // hidden over mup_base_hidden; 1 without muP
  // ResidualFactors: the factors of the residual connection after a mixer: α · residual + β · branch.
  struct ResidualFactors {
    double residual = 1, branch = 1;
    bool operator==(const ResidualFactors&) const = default;
  };
  ResidualFactors mixer_factors(int64_t layer) const;
  ResidualFactors channel_factors() const;
  double residual_alpha() const;  // alpha, with 0 replaced by its meaning
  bool operator==(const ModelConfig&) const = default;
};

void declare(OptionSet& set, ModelConfig& model);

}  // namespace longhaul::recipe
