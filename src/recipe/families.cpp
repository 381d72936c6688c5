#include "recipe/families.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <span>

#include "recipe/mixers.h"

namespace longhaul::recipe {

namespace {

// What makes a model one of a family.
struct Rule {
  bool (*holds)(const ModelConfig&);
  std::vector<std::string_view> keys;
  std::string_view reason;
};

bool only(const ModelConfig& model, std::initializer_list<Mixer> known) {
  return std::ranges::all_of(mixers_used(model), [&](Mixer mixer) { return std::ranges::find(known, mixer) != known.end(); });
}

bool factors_are_one(const ModelConfig& model) {
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    if (model.mixer_factors(layer) != ModelConfig::ResidualFactors{}) return false;
  }
  return model.channel_factors() == ModelConfig::ResidualFactors{};
}

// One window, and which layers have it, is what a configuration can say.
bool one_window(const ModelConfig& model) {
  int64_t found = 0;
  for (const int64_t window : model.softmax.windows) {
    if (window != 0 && found != 0 && window != found) return false;
    if (window != 0) found = window;
  }
  return true;
}
bool same_window_everywhere(const ModelConfig& model) {
  return std::ranges::all_of(model.softmax.windows, [&](int64_t window) { return window == model.softmax.windows.front(); });
}

const Rule kPreNorm{[](const ModelConfig& m) { return m.wiring == Wiring::kPreNorm && factors_are_one(m); },
                    {"model.wiring", "model.alpha", "model.beta"},
                    "it is pre_norm, residual factors 1"};
const Rule kSoftmaxOnly{
    [](const ModelConfig& m) { return only(m, {Mixer::kSoftmax}); }, {"model.mixers"}, "its layers are softmax attention"};
const Rule kDense{[](const ModelConfig& m) { return m.experts == 0; }, {"model.experts"}, "it is dense"};
const Rule kExperts{[](const ModelConfig& m) { return m.experts > 0; }, {"model.experts"}, "it has experts"};
const Rule kSwigluRms{[](const ModelConfig& m) { return m.norm == Norm::kRms && m.channel == Channel::kSwiglu && !m.bias; },
                      {"model.norm", "model.channel", "model.bias"},
                      "it has RMS normalisation, SwiGLU, and no biases"};
const Rule kRotary{[](const ModelConfig& m) { return m.position == Position::kRotary; }, {"model.position"}, "it has rotary positions"};
const Rule kWholeRotary{[](const ModelConfig& m) { return m.position == Position::kRotary && m.softmax.rotary_dim == m.head_dim; },
                        {"model.position", "model.rotary_dim", "model.head_dim"},
                        "it rotates whole heads: rotary_dim = head_dim"};
const Rule kNoQkNorm{[](const ModelConfig& m) { return !m.softmax.qk_norm; }, {"model.softmax.qk_norm"}, "queries and keys have no norms"};
const Rule kQkNorm{[](const ModelConfig& m) { return m.softmax.qk_norm; }, {"model.softmax.qk_norm"}, "queries and keys have norms"};
const Rule kNoBias{
    [](const ModelConfig& m) { return m.softmax.bias == AttentionBias::kNone; }, {"model.softmax.bias"}, "attention has no biases"};
const Rule kQkvBias{[](const ModelConfig& m) { return m.softmax.bias == AttentionBias::kQkv; },
                    {"model.softmax.bias"},
                    "queries, keys and values have biases"};
const Rule kAllOrNoBias{[](const ModelConfig& m) { return m.softmax.bias != AttentionBias::kQkv; },
                        {"model.softmax.bias"},
                        "attention has biases everywhere or nowhere"};
const Rule kNoWindow{[](const ModelConfig& m) { return same_window_everywhere(m) && m.softmax.window(0) == 0; },
                     {"model.softmax.windows"},
                     "every token sees all before it"};
const Rule kSameWindow{same_window_everywhere, {"model.softmax.windows"}, "all layers have one window"};
const Rule kOneWindow{one_window, {"model.softmax.windows"}, "layers have one window or none"};
const Rule kNoScaling{[](const ModelConfig& m) { return m.softmax.rotary_scaling == RotaryScaling::kNone; },
                      {"model.softmax.rotary_scaling"},
                      "its rotary frequencies are not scaled"};
const Rule kPlainRouter{
    [](const ModelConfig& m) { return m.router.score == RouterScore::kSoftmax && m.router.normalised && m.router.bias_rate == 0; },
    {"model.router_score", "model.router_normalised", "model.router_bias_rate"},
    "its router is a normalised softmax without a bias"};

std::vector<Rule> rules_of_llama_like(std::initializer_list<Rule> own) {
  std::vector<Rule> all = {kSwigluRms, kSoftmaxOnly, kPreNorm, kWholeRotary};
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
      {[](const ModelConfig& m) { return m.wiring != Wiring::kParallel; }, {"model.wiring"}, "its mixers have a norm each"},
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
        {[](const ModelConfig& m) { return m.position == Position::kLearned; }, {"model.position"}, "it has learned positions"},
        kDense,
        kSoftmaxOnly,
        kPreNorm,
        kNoQkNorm,
        kNoWindow,
        {[](const ModelConfig& m) { return m.softmax.kv_heads == m.heads && m.heads * m.head_dim == m.hidden; },
         {"model.kv_heads", "model.heads", "model.head_dim", "model.hidden"},
         "it has as many key heads as heads, and heads · head_dim = hidden"}}},
      {"llama", rules_of_llama_like({kDense, kNoQkNorm, kNoWindow, kAllOrNoBias})},
      {"mistral", rules_of_llama_like({kDense, kNoQkNorm, kSameWindow, kNoBias})},
      {"mixtral", rules_of_llama_like({kExperts, kPlainRouter, kNoQkNorm, kSameWindow, kNoBias})},
      {"qwen2", rules_of_llama_like({kDense, kNoQkNorm, kOneWindow, kQkvBias})},
      {"qwen3", rules_of_llama_like({kDense, kQkNorm, kOneWindow, kAllOrNoBias})},
      {"minimax", rules_of_minimax({kNoWindow,
                                    {[](const ModelConfig& m) {
                                       return m.lightning.layer_factor == LayerFactor::kOfficial && !m.lightning.plain_slopes();
                                     },
                                     {"model.layer_factor", "model.lightning.base_slopes"},
                                     "its decay slopes are the official ones"}})},
      {"minimax_hf",
       rules_of_minimax(
           {kWholeRotary,
            kSameWindow,
            {[](const ModelConfig& m) { return m.wiring == Wiring::kPostNorm; }, {"model.wiring"}, "it is post_norm"},
            {[](const ModelConfig& m) { return m.lightning.layer_factor == LayerFactor::kHuggingFace && m.lightning.plain_slopes(); },
             {"model.layer_factor", "model.lightning.base_slopes"},
             "its decay slopes are those of transformers: hugging_face"}})},
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
    out.push_back({{"model.family"},
                   fmt::format("model.family = {} is none of {}", model.family, fmt::join(family_names(), ", ")),
                   "model.family=longhaul"});
    return;
  }
  for (const Rule& rule : found->rules) {
    if (rule.holds(model)) continue;
    std::vector<std::string> keys = {"model.family"};
    keys.insert(keys.end(), rule.keys.begin(), rule.keys.end());
    out.push_back({keys, fmt::format("model.family = {}: {}", model.family, rule.reason), "model.family=longhaul"});
  }
}

}  // namespace longhaul::recipe
