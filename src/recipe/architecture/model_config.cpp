#include "recipe/architecture/model_config.h"

#include <algorithm>
#include <cmath>

#include "recipe/architecture/families.h"
#include "recipe/mixers.h"
#include "recipe/options/option.h"

namespace longhaul::recipe {

std::vector<std::string_view> names_of(Norm) { return {"rms", "layer", "simple_rms"}; }
std::vector<std::string_view> names_of(Channel) { return {"swiglu", "gelu", "glu", "none"}; }
std::vector<std::string_view> names_of(Wiring) { return {"pre_norm", "post_norm", "parallel"}; }
std::vector<std::string_view> names_of(Position) { return {"rotary", "learned", "none"}; }
std::vector<std::string_view> names_of(Initialisation) { return {"xavier_deepnorm", "normal"}; }

ChannelMixer ModelConfig::channel_mixer(int64_t layer) const {
  if (channel == Channel::kNone) return ChannelMixer::kNone;
  const bool dense = experts == 0 || std::ranges::find(dense_layers, layer) != dense_layers.end();
  return dense ? ChannelMixer::kDense : ChannelMixer::kExperts;
}

std::vector<ChannelMixer> ModelConfig::channel_mixers_used() const {
  std::vector<ChannelMixer> used;
  for (int64_t l = 0; l < layers && used.size() < 2; ++l) {
    if (std::ranges::find(used, channel_mixer(l)) == used.end()) used.push_back(channel_mixer(l));
  }
  return used;
}

int64_t ModelConfig::routers() const {
  int64_t count = 0;
  for (int64_t l = 0; l < layers; ++l) count += channel_mixer(l) == ChannelMixer::kExperts ? 1 : 0;
  return count;
}

double ModelConfig::balance_factor(BalanceForm form) const {
  const auto e = static_cast<double>(experts), k = static_cast<double>(experts_per_token);
  switch (form) {
    case BalanceForm::kSwitch:
      return e;
    case BalanceForm::kGshard:
      return k / e;
    case BalanceForm::kHuggingFace:
      return k * e / static_cast<double>(std::max<int64_t>(1, routers()));
  }
  return 0;
}

double ModelConfig::auxiliary_loss_as(BalanceForm form) const {
  return form == router.balance_form
             ? auxiliary_loss
             : auxiliary_loss * balance_factor(router.balance_form) / balance_factor(form);
}

double ModelConfig::width_factor() const {
  return mup_base_hidden > 0 ? static_cast<double>(hidden) / static_cast<double>(mup_base_hidden) : 1;
}

double ModelConfig::residual_alpha() const {
  if (alpha != 0) return alpha;
  return wiring == Wiring::kPostNorm ? std::pow(2.0 * static_cast<double>(layers), 0.25) : 1;
}

ModelConfig::ResidualFactors ModelConfig::mixer_factors(int64_t layer) const {
  if (wiring == Wiring::kParallel) return {};  // one sum of three
  ResidualFactors own{residual_alpha(), beta};
  const auto take = [&](double of_kind_alpha, double of_kind_beta) {
    if (of_kind_alpha != 0) own.residual = of_kind_alpha;
    if (of_kind_beta != 0) own.branch = of_kind_beta;
  };
  if (mixer(layer) == Mixer::kSoftmax) take(softmax.alpha, softmax.beta);
  if (mixer(layer) == Mixer::kLightning) take(lightning.alpha, lightning.beta);
  return own;
}

ModelConfig::ResidualFactors ModelConfig::channel_factors() const {
  if (wiring == Wiring::kParallel) return {};
  return {channel_alpha != 0 ? channel_alpha : residual_alpha(), channel_beta != 0 ? channel_beta : beta};
}

void declare(OptionSet& set, ModelConfig& model) {
  // Upper limits are far beyond any machine; they keep every product of sizes inside 63 bits.
  set.add("model.preset", model.preset,
          "Name of a built-in model shape that fills this section; keys given here win over it.")
      .may_change();
  set.add("model.family", model.family, "Whose public tensor names import and export use.")
      .one_of(family_names());
  set.add("model.layers", model.layers,
          "Number of layers, each a sequence mixer followed by a channel mixer.")
      .at_least(1)
      .at_most(10000)
      .also_called({"num_hidden_layers", "n_layer", "num_layers", "n_layers"});
  set.add("model.hidden", model.hidden, "Width of the residual stream.")
      .unit("channels")
      .at_least(1)
      .at_most(1 << 18)
      .also_called({"hidden_size", "n_embd", "d_model", "dim"});
  set.add("model.vocabulary", model.vocabulary,
          "Rows of the embedding and of the output head; a tokenizer may use fewer, never more.")
      .unit("entries")
      .at_least(2)
      .at_most(1 << 26)
      .also_called({"vocab_size", "vocab"});
  set.add("model.heads", model.heads, "Heads of every sequence mixer.")
      .at_least(1)
      .at_most(1 << 16)
      .also_called({"num_attention_heads", "n_head", "n_heads"});
  set.add("model.head_dim", model.head_dim,
          "Width of one head; model.heads times this need not equal model.hidden.")
      .unit("channels")
      .at_least(1)
      .at_most(1 << 14);
  set.add("model.mixers", model.mixers,
          "Sequence mixer of each layer as a pattern repeated over the layers, first layer first; "
          "[\"lightning*7\", \"softmax\"] is the 7:1 hybrid.")
      .also_called({"attn_type_list", "layer_types", "attention"});
  set.add("model.causal", model.causal,
          "Whether a token reads those before it alone. false: all tokens of its document (lightnet and "
          "softmax layers), for train.objective = masked.")
      .also_called({"is_causal", "is_decoder", "bidirectional"});
  set.add("model.channel", model.channel,
          "Channel mixer: swiglu (gate, up, down), gelu (up, tanh-GeLU, down), glu (swiglu without silu), or "
          "none: layers of a sequence mixer alone.")
      .also_called({"hidden_act", "activation", "mlp"});
  set.add("model.intermediate", model.intermediate,
          "Inner width of one expert, or of the dense channel mixer.")
      .unit("channels")
      .at_least(1)
      .at_most(1 << 22)
      .also_called({"intermediate_size", "ffn_dim", "n_inner"});
  set.add("model.norm", model.norm,
          "Normalisation: rms, layer (mean removed, and a bias when model.bias is set), or simple_rms (rms "
          "without weights).");
  set.add("model.norm_eps", model.norm_eps, "Added to the mean square inside every normalisation.")
      .above(0)
      .at_most(1)
      .also_called({"rms_norm_eps", "layer_norm_epsilon"});
  set.add("model.wiring", model.wiring,
          "pre_norm: x + f(norm(x)), for each mixer. post_norm: alpha·h + beta·f(h) with h = norm(x), as in "
          "DeepNorm. parallel: x + f(h) + g(h) with "
          "one h = norm(x) for both mixers of a layer.");
  set.add("model.alpha", model.alpha,
          "Residual factor: alpha·x + beta·f(norm(x)), of post_norm alpha·h + beta·f(h). 0 means "
          "(2·layers)^0.25 of post_norm and 1 of pre_norm.")
      .at_least(0)
      .at_most(1000);
  set.add("model.beta", model.beta, "Branch factor: see model.alpha.").above(0).at_most(1000);
  set.add("model.channel_alpha", model.channel_alpha, "model.alpha behind channel mixers; 0: as model.alpha.")
      .at_least(0)
      .at_most(1000);
  set.add("model.channel_beta", model.channel_beta, "model.beta behind channel mixers; 0: as model.beta.")
      .at_least(0)
      .at_most(1000);
  set.add("model.position", model.position,
          "How softmax and mla layers learn of order: rotary, learned (a table added to the embedding), or "
          "none.");
  set.add("model.max_positions", model.max_positions,
          "Longest sequence: rows of the table of learned positions; with rotary positions 0 means no limit.")
      .unit("tokens")
      .at_least(0)
      .at_most(2147483648.0)
      .also_called({"max_position_embeddings", "n_positions", "n_ctx", "context_length"});
  set.add("model.toeplitz", model.toeplitz,
          "Toeplitz position encoding (TPE) of cosFormer2 and LightNet: the embeddings are convolved, "
          "channel by channel, with a causal kernel that is a "
          "sum of so many learned exponentials; along each axis of model.lightnet.grid, and added up "
          "(MD-TPE). 0: none.")
      .unit("exponentials")
      .at_least(0)
      .at_most(1 << 14)
      .also_called({"tpe", "use_tpe", "tpe_dim", "tpe_expand", "toeplitz_exponentials", "toeplitz_dim"});
  set.add("model.bias", model.bias, "A bias on every linear layer and layer normalisation, as in GPT-2.");
  set.add("model.tie_embeddings", model.tie_embeddings,
          "One matrix serves as the embedding and as the output head.")
      .also_called({"tie_word_embeddings"});
  set.add("model.initialisation", model.initialisation,
          "xavier_deepnorm: Xavier with DeepNorm gains. normal: model.initial_std everywhere.")
      .also_called({"init", "initialization"});
  set.add("model.initial_std", model.initial_std, "Standard deviation of initialisation = normal.")
      .above(0)
      .at_most(10)
      .also_called({"initializer_range", "init_std"});
  set.add("model.predict_ahead", model.predict_ahead,
          "Modules behind the last layer, each predicting one token further ahead from the hidden states of "
          "the one before it and the token between "
          "(DeepSeek-V3's multi-token prediction); trained only: held-out loss, sampling and export are of "
          "the model without them. 0: none.")
      .unit("tokens")
      .at_least(0)
      .at_most(16)
      .also_called({"num_nextn_predict_layers", "mtp_num_layers", "mtp", "multi_token_prediction"});
  set.add("model.predict_ahead_weight", model.predict_ahead_weight,
          "Weight of the mean of the losses of model.predict_ahead's modules beside the loss of the next "
          "token.")
      .at_least(0)
      .at_most(1000)
      .also_called({"mtp_loss_scaling_factor", "mtp_loss_weight"});
  set.add("model.mup_base_hidden", model.mup_base_hidden,
          "muP: the model.hidden at which the learning rate and the standard deviations were found. At other "
          "widths hidden matrices begin smaller and "
          "learn slower and logits are divided, so that they stay right. 0: no muP.")
      .unit("channels")
      .at_least(0)
      .at_most(1 << 18)
      .also_called({"mup", "mup_base_width", "mup_base_size", "base_hidden"});
  declare_mixers(set, model);
}

}  // namespace longhaul::recipe
