#include "recipe/architecture/families.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

#include "recipe/mixers.h"

namespace longhaul::recipe {

namespace {

// The properties by which a model belongs to a family.
struct Rule {
  bool (*holds)(const ModelConfig&);
  std::vector<std::string_view> keys;
  std::string_view reason;
};

bool only(const ModelConfig& model, std::initializer_list<Mixer> known) {
  return std::ranges::all_of(mixers_used(model),
                             [&](Mixer mixer) { return std::ranges::find(known, mixer) != known.end(); });
}

bool factors_are_one(const ModelConfig& model) {
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    if (model.mixer_factors(layer) != ModelConfig::ResidualFactors{}) return false;
  }
  return model.channel_factors() == ModelConfig::ResidualFactors{};
}

// A configuration can only express one window, and which layers have it.
bool one_window(const ModelConfig& model) {
  int64_t found = 0;
  for (const int64_t window : model.softmax.windows) {
    if (window != 0 && found != 0 && window != found) return false;
    if (window != 0) found = window;
  }
  return true;
}
bool same_window_everywhere(const ModelConfig& model) {
  return std::ranges::all_of(model.softmax.windows,
                             [&](int64_t window) { return window == model.softmax.windows.front(); });
}

const Rule kPreNorm{[](const ModelConfig& m) { return m.wiring == Wiring::kPreNorm && factors_are_one(m); },
                    {"model.wiring", "model.alpha", "model.beta"},
                    "it is pre_norm, residual factors 1"};
const Rule kSoftmaxOnly{[](const ModelConfig& m) { return only(m, {Mixer::kSoftmax}); },
                        {"model.mixers"},
                        "its layers are softmax attention"};
const Rule kDense{[](const ModelConfig& m) { return m.experts == 0; }, {"model.experts"}, "it is dense"};
const Rule kExperts{[](const ModelConfig& m) { return m.experts > 0; }, {"model.experts"}, "it has experts"};
const Rule kSwigluRms{
    [](const ModelConfig& m) { return m.norm == Norm::kRms && m.channel == Channel::kSwiglu && !m.bias; },
    {"model.norm", "model.channel", "model.bias"},
    "it has RMS normalisation, SwiGLU, and no biases"};
const Rule kRotary{[](const ModelConfig& m) { return m.position == Position::kRotary; },
                   {"model.position"},
                   "it has rotary positions"};
const Rule kWholeRotary{[](const ModelConfig& m) {
                          return m.position == Position::kRotary && m.softmax.rotary_dim == m.head_dim;
                        },
                        {"model.position", "model.rotary_dim", "model.head_dim"},
                        "it rotates whole heads: rotary_dim = head_dim"};
const Rule kNoQkNorm{[](const ModelConfig& m) { return !m.softmax.qk_norm; },
                     {"model.softmax.qk_norm"},
                     "queries and keys have no norms"};
const Rule kQkNorm{[](const ModelConfig& m) { return m.softmax.qk_norm; },
                   {"model.softmax.qk_norm"},
                   "queries and keys have norms"};
const Rule kNoBias{[](const ModelConfig& m) { return m.softmax.bias == AttentionBias::kNone; },
                   {"model.softmax.bias"},
                   "attention has no biases"};
const Rule kQkvBias{[](const ModelConfig& m) { return m.softmax.bias == AttentionBias::kQkv; },
                    {"model.softmax.bias"},
                    "queries, keys and values have biases"};
const Rule kAllOrNoBias{[](const ModelConfig& m) { return m.softmax.bias != AttentionBias::kQkv; },
                        {"model.softmax.bias"},
                        "attention has biases everywhere or nowhere"};
const Rule kNoWindow{
    [](const ModelConfig& m) { return same_window_everywhere(m) && m.softmax.window(0) == 0; },
    {"model.softmax.windows"},
    "every token sees all before it"};
const Rule kSameWindow{same_window_everywhere, {"model.softmax.windows"}, "all layers have one window"};
const Rule kOneWindow{one_window, {"model.softmax.windows"}, "layers have one window or none"};
const Rule kNoScaling{[](const ModelConfig& m) { return m.softmax.rotary_scaling == RotaryScaling::kNone; },
                      {"model.softmax.rotary_scaling"},
                      "its rotary frequencies are not scaled"};
const Rule kPlainScores{[](const ModelConfig& m) {
                          return m.router.score == RouterScore::kSoftmax && !m.router.biased() &&
                                 m.router.scale == 1 && m.router.groups == 1;
                        },
                        {"model.router_score", "model.router_bias_rate", "model.router_choice",
                         "model.router_scale", "model.router_groups"},
                        "its router is a softmax without bias, scale and groups"};
const Rule kPlainRouter{[](const ModelConfig& m) {
                          return m.router.score == RouterScore::kSoftmax && m.router.normalised &&
                                 !m.router.biased() && m.router.scale == 1 && m.router.groups == 1;
                        },
                        {"model.router_score", "model.router_normalised", "model.router_bias_rate",
                         "model.router_choice", "model.router_scale", "model.router_groups"},
                        "its router is a normalised softmax without bias, scale and groups"};

// Options that configurations of public families do not have; modules that predict further ahead are left out
// of them.
const Rule kNoMup{[](const ModelConfig& m) { return m.width_factor() == 1; },
                  {"model.mup_base_hidden"},
                  "its logits are not divided, as muP's are"};
const Rule kNoOutputGate{[](const ModelConfig& m) { return !m.softmax.output_gate; },
                         {"model.softmax.output_gate"},
                         "attention has no output gate"};
const Rule kEqualLayers{[](const ModelConfig& m) { return m.experts == 0 || m.dense_layers.empty(); },
                        {"model.dense_layers"},
                        "all layers have experts"};
const Rule kNoShared{[](const ModelConfig& m) { return m.experts == 0 || m.shared_experts == 0; },
                     {"model.shared_experts"},
                     "it has no shared experts"};

const Rule kNoPositions{[](const ModelConfig& m) { return m.position == Position::kNone; },
                        {"model.position"},
                        "it has no positions outside its mixers"};
const Rule kRetnetOnly{[](const ModelConfig& m) { return only(m, {Mixer::kRetnet}); },
                       {"model.mixers"},
                       "its layers are retnet"};
const Rule kGlaOnly{
    [](const ModelConfig& m) { return only(m, {Mixer::kGla}); }, {"model.mixers"}, "its layers are gla"};
const Rule kHgrn2Only{
    [](const ModelConfig& m) { return only(m, {Mixer::kHgrn2}); }, {"model.mixers"}, "its layers are hgrn2"};
const Rule kDeltaNetOnly{[](const ModelConfig& m) { return only(m, {Mixer::kDeltaNet}); },
                         {"model.mixers"},
                         "its layers are deltanet"};
const Rule kGatedDeltaNetOnly{[](const ModelConfig& m) { return only(m, {Mixer::kGatedDeltaNet}); },
                              {"model.mixers"},
                              "its layers are gated_deltanet"};

std::vector<Rule> rules_of_llama_like(std::initializer_list<Rule> own) {
  std::vector<Rule> all = {kSwigluRms, kSoftmaxOnly, kPreNorm, kWholeRotary, kNoMup, kNoOutputGate};
  all.insert(all.end(), own);
  return all;
}

std::vector<Rule> rules_of_minimax(std::initializer_list<Rule> own) {
  std::vector<Rule> all = {
      kSwigluRms,
      kExperts,
      kRotary,
      kNoScaling,
      kNoQkNorm,
      kNoBias,
      kPlainRouter,
      kNoMup,
      kNoOutputGate,
      kEqualLayers,
      kNoShared,
      {[](const ModelConfig& m) { return m.wiring != Wiring::kParallel; },
       {"model.wiring"},
       "its mixers have a norm each"},
      {[](const ModelConfig& m) {
         return only(m, {Mixer::kSoftmax, Mixer::kLightning});
       },
       {"model.mixers"},
       "its layers are lightning and softmax"},
      {[](const ModelConfig& m) { return m.lightning.norm_eps == 1e-6; },
       {"model.lightning_norm_eps"},
       "lightning layers are normalised with 1e-6, which its configuration does not say"}};
  all.insert(all.end(), own);
  return all;
}

// As in flash-linear-attention: layers of one mixer and SwiGLU, without positions.
std::vector<Rule> rules_of_flash_linear(Rule mixers, std::initializer_list<Rule> own) {
  std::vector<Rule> all = {kSwigluRms, kDense, kPreNorm, kNoPositions, std::move(mixers)};
  all.insert(all.end(), own);
  return all;
}

struct FamilyRules {
  std::string_view name;
  std::vector<Rule> rules;
};

const std::vector<FamilyRules>& all_families() {
  static const std::vector<FamilyRules> families = {
      {"longhaul", {}},
      {"gpt2",
       {{[](const ModelConfig& m) { return m.norm == Norm::kLayer && m.channel == Channel::kGelu && m.bias; },
         {"model.norm", "model.channel", "model.bias"},
         "it has layer normalisation, the gelu channel mixer, and biases"},
        {[](const ModelConfig& m) { return m.position == Position::kLearned; },
         {"model.position"},
         "it has learned positions"},
        kDense,
        kSoftmaxOnly,
        kPreNorm,
        kNoQkNorm,
        kNoWindow,
        kNoMup,
        kNoOutputGate,
        {[](const ModelConfig& m) {
           return m.softmax.kv_heads == m.heads && m.heads * m.head_dim == m.hidden;
         },
         {"model.kv_heads", "model.heads", "model.head_dim", "model.hidden"},
         "it has as many key heads as heads, and heads · head_dim = hidden"}}},
      {"llama", rules_of_llama_like({kDense, kNoQkNorm, kNoWindow, kAllOrNoBias})},
      {"mistral", rules_of_llama_like({kDense, kNoQkNorm, kSameWindow, kNoBias})},
      {"mixtral", rules_of_llama_like(
                      {kExperts, kPlainRouter, kEqualLayers, kNoShared, kNoQkNorm, kSameWindow, kNoBias})},
      {"qwen2", rules_of_llama_like({kDense, kNoQkNorm, kOneWindow, kQkvBias})},
      {"qwen3", rules_of_llama_like({kDense, kQkNorm, kOneWindow, kAllOrNoBias})},
      {"qwen2_moe",
       rules_of_llama_like({kExperts,
                            kPlainScores,
                            kNoQkNorm,
                            kOneWindow,
                            kQkvBias,
                            {[](const ModelConfig& m) { return m.shared_experts > 0 && m.shared_gate; },
                             {"model.shared_experts", "model.shared_gate"},
                             "it has shared experts with a gate"}})},
      {"qwen3_moe",
       rules_of_llama_like({kExperts, kPlainScores, kNoShared, kQkNorm, kSameWindow, kAllOrNoBias})},
      {"minimax", rules_of_minimax({kNoWindow,
                                    {[](const ModelConfig& m) {
                                       return m.lightning.layer_factor == LayerFactor::kOfficial &&
                                              !m.lightning.plain_slopes();
                                     },
                                     {"model.layer_factor", "model.lightning.base_slopes"},
                                     "its decay slopes are the official ones"}})},
      {"minimax_hf", rules_of_minimax({kWholeRotary,
                                       kSameWindow,
                                       {[](const ModelConfig& m) { return m.wiring == Wiring::kPostNorm; },
                                        {"model.wiring"},
                                        "it is post_norm"},
                                       {[](const ModelConfig& m) {
                                          return m.lightning.layer_factor == LayerFactor::kHuggingFace &&
                                                 m.lightning.plain_slopes();
                                        },
                                        {"model.layer_factor", "model.lightning.base_slopes"},
                                        "its decay slopes are those of transformers: hugging_face"}})},
      {"mamba2",
       {kPreNorm,
        kDense,
        kNoPositions,
        {[](const ModelConfig& m) { return only(m, {Mixer::kMamba2}) && m.channel == Channel::kNone; },
         {"model.mixers", "model.channel"},
         "its layers are mamba2 alone, without channel mixers"},
        {[](const ModelConfig& m) {
           return m.norm == Norm::kRms && !m.bias && m.mamba2.norm_eps == m.norm_eps;
         },
         {"model.norm", "model.bias", "model.norm_eps", "model.mamba2.norm_eps"},
         "it has RMS normalisation with one norm_eps, and no biases"},
        {[](const ModelConfig& m) { return m.mamba2.groups == m.mamba2.norm_groups; },
         {"model.mamba2.groups", "model.mamba2.norm_groups"},
         "its heads are normalised in the groups that share B and C"},
        {[](const ModelConfig& m) { return m.heads * m.head_dim % m.hidden == 0; },
         {"model.heads", "model.head_dim", "model.hidden"},
         "heads · head_dim is a multiple of hidden"}}},
      {"retnet", rules_of_flash_linear(
                     kRetnetOnly,
                     {{[](const ModelConfig& m) {
                         return m.retnet.norm_weight && m.retnet.norm_eps == m.norm_eps &&
                                m.retnet.rotary_base == 10000;
                       },
                       {"model.retnet.norm_weight", "model.retnet.norm_eps", "model.retnet.rotary_base"},
                       "norms of heads have weights and the model's norm_eps, the rotary base is 10000"}})},
      {"gla",
       rules_of_flash_linear(
           kGlaOnly, {{[](const ModelConfig& m) {
                         return m.gla.norm_eps == m.norm_eps && m.gla.forget_rank == 16 &&
                                m.gla.temperature == 16;
                       },
                       {"model.gla.norm_eps", "model.gla.forget_rank", "model.gla.temperature"},
                       "norms of heads have the model's norm_eps, forget_rank and temperature are 16"}})},
      {"hgrn2",
       rules_of_flash_linear(
           kHgrn2Only, {{[](const ModelConfig& m) {
                           return m.heads * m.head_dim == m.hidden &&
                                  m.hgrn2.key_channels(m.head_dim) == m.head_dim;
                         },
                         {"model.heads", "model.head_dim", "model.hgrn2.expand"},
                         "heads · head_dim = hidden, and a head has as many keys as values"},
                        {[](const ModelConfig& m) {
                           return std::abs(m.hgrn2.norm_eps - 1e-5 * static_cast<double>(m.head_dim)) < 1e-12;
                         },
                         {"model.hgrn2.norm_eps"},
                         "hgrn2.norm_eps is 1e-5 · head_dim, which its configuration does not say"}})},
      {"delta_net", rules_of_flash_linear(kDeltaNetOnly, {{[](const ModelConfig& m) {
                                                             return m.deltanet.norm_eps == m.norm_eps;
                                                           },
                                                           {"model.deltanet.norm_eps"},
                                                           "norms of heads have the model's norm_eps"}})},
      {"gated_deltanet",
       rules_of_flash_linear(kGatedDeltaNetOnly,
                             {{[](const ModelConfig& m) { return m.gated_deltanet.norm_eps == m.norm_eps; },
                               {"model.gated_deltanet.norm_eps"},
                               "norms of heads have the model's norm_eps"}})},
  };
  return families;
}

}  // namespace

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const FamilyRules& family : all_families()) names.emplace_back(family.name);
  return names;
}

void check_family(const ModelConfig& model, std::vector<Problem>& out) {
  const auto found = std::ranges::find(all_families(), model.family, &FamilyRules::name);
  if (found == all_families().end()) {
    out.push_back(
        {{"model.family"},
         fmt::format("model.family = {} is none of {}", model.family, fmt::join(family_names(), ", ")),
         "model.family=longhaul"});
    return;
  }
  if (model.family != "longhaul" && model.toeplitz > 0) {
    out.push_back({{"model.family", "model.toeplitz"},
                   fmt::format("model.family = {}: its embeddings have no Toeplitz encoding", model.family),
                   "model.family=longhaul"});
  }
  if (model.family != "longhaul" && !model.causal) {
    out.push_back(
        {{"model.family", "model.causal"},
         fmt::format(
             "model.family = {}: its models are causal, and no configuration of theirs says otherwise",
             model.family),
         "model.family=longhaul, or model.causal=true"});
  }
  for (const Rule& rule : found->rules) {
    if (rule.holds(model)) continue;
    std::vector<std::string> keys = {"model.family"};
    keys.insert(keys.end(), rule.keys.begin(), rule.keys.end());
    out.push_back(
        {keys, fmt::format("model.family = {}: {}", model.family, rule.reason), "model.family=longhaul"});
  }
}

}  // namespace longhaul::recipe
