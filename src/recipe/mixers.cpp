#include "recipe/mixers.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "recipe/channels/dense.h"
#include "recipe/channels/experts.h"
#include "recipe/channels/none.h"
#include "recipe/check.h"
#include "recipe/mixers/mixture.h"
#include "recipe/mixers/mla.h"
#include "recipe/options/option.h"

namespace longhaul::recipe {

namespace {

constexpr const SequenceMixerEntry* kSequenceMixers[] = {
    &kSoftmaxMixer,       &kLightningMixer,  &kHgrn2Mixer,    &kTnlMixer,     &kRetnetMixer,   &kGlaMixer,
    &kCosformerMixer,     &kCosformer2Mixer, &kLightnetMixer, &kMetalaMixer,  &kMamba2Mixer,   &kHgrnMixer,
    &kGatedDeltaNetMixer, &kKdaMixer,        &kLcsmMixer,     &kMixtureMixer, &kDeltaNetMixer, &kMlaMixer};
constexpr const ChannelMixerEntry* kChannelMixers[] = {&kDenseMixer, &kExpertsMixer, &kNoChannelMixer};

// A bias on every linear layer, or on none.
void check_biases(const ModelConfig& model, std::vector<Problem>& out) {
  if (!model.bias) return;
  std::string without;
  const auto add = [&](std::string_view name) {
    without += (without.empty() ? "" : ", ") + std::string(name);
  };
  for (const Mixer mixer : mixers_used(model)) {
    if (!entry_of(mixer).biases) add(entry_of(mixer).name);
  }
  for (const ChannelMixer mixer : model.channel_mixers_used()) {
    if (!entry_of(mixer).biases(model))
      add(fmt::format("{} {}", entry_of(mixer).name, name_of_value(model.channel)));
  }
  if (without.empty()) return;
  out.push_back(
      {{"model.bias", "model.channel", "model.mixers"},
       fmt::format(
           "model.bias is for softmax attention with the gelu channel mixer; {} layers have no biases",
           without),
       "model.bias=false"});
}

// For a model in which all tokens of a document read each other: refuses everything that assumes an order of
// tokens.
void check_order(const ModelConfig& model, std::vector<Problem>& out) {
  if (model.causal) return;
  const auto refuse = [&](std::string key, const std::string& reason, std::string hint) {
    out.push_back({{"model.causal", std::move(key)}, "model.causal = false: " + reason, std::move(hint)});
  };
  std::string with;
  for (const SequenceMixerEntry* entry : kSequenceMixers) {
    if (entry->bidirectional) with += (with.empty() ? "" : ", ") + std::string(entry->name);
  }
  for (const Mixer mixer : mixers_used(model)) {
    if (entry_of(mixer).bidirectional) continue;
    refuse("model.mixers",
           fmt::format("{} reads tokens in their order, and has no form without; {} have",
                       entry_of(mixer).name, with),
           "model.mixers=lightnet, or model.causal=true");
  }
  const auto used = mixers_used(model);
  if (std::ranges::find(used, Mixer::kSoftmax) != used.end() &&
      std::ranges::any_of(model.softmax.windows, [](int64_t window) { return window > 0; })) {
    refuse("model.softmax.windows",
           "a window counts the keys before a token, and here there are keys behind it too",
           "model.softmax.windows=0");
  }
  if (model.predict_ahead > 0) {
    refuse(
        "model.predict_ahead",
        fmt::format("model.predict_ahead = {} modules would predict tokens that the hidden states have read",
                    model.predict_ahead),
        "model.predict_ahead=0");
  }
}

}  // namespace

std::vector<std::string_view> names_of(Mixer) {
  std::vector<std::string_view> names;
  for (const SequenceMixerEntry* entry : kSequenceMixers) names.push_back(entry->name);
  return names;
}

const SequenceMixerEntry& entry_of(Mixer mixer) { return *kSequenceMixers[static_cast<size_t>(mixer)]; }
const ChannelMixerEntry& entry_of(ChannelMixer mixer) { return *kChannelMixers[static_cast<size_t>(mixer)]; }

OperatorSizes operators_of_layer(const ModelConfig& model, int64_t layer) {
  const SequenceMixerEntry& entry = entry_of(model.mixer(layer));
  return (layer == 0 && entry.of_first_layer.operators != nullptr ? entry.of_first_layer.operators
                                                                  : entry.operators)(model);
}

int64_t linear_heads(const OperatorSizes& sizes) {
  if (sizes.delta_rule.heads > 0) return sizes.delta_rule.key_heads;
  if (!sizes.recurrence.causal) return 0;
  return sizes.recurrence.sums_beside ? std::min<int64_t>(1, sizes.recurrence.heads) : sizes.recurrence.heads;
}

std::vector<MixerStateTensor> state_of_layer(const ModelConfig& model, int64_t layer) {
  if (!model.causal) return {};  // nothing is decoded
  const SequenceMixerEntry& entry = entry_of(model.mixer(layer));
  return (layer == 0 && entry.of_first_layer.state != nullptr ? entry.of_first_layer.state
                                                              : entry.state)(model);
}

SequenceLimit sequence_limit(const ModelConfig& model) {
  SequenceLimit least;
  if (model.position == Position::kLearned) least = {model.max_positions, "model.max_positions"};
  for (const Mixer mixer : mixers_used(model)) {
    const auto limit_of = entry_of(mixer).limit;
    if (limit_of == nullptr) continue;
    const SequenceLimit limit = limit_of(model);
    if (limit.tokens < least.tokens) least = limit;
  }
  return least;
}

std::vector<Mixer> mixers_used(const ModelConfig& model) {
  std::vector<Mixer> used;
  for (int64_t l = 0; l < std::min<int64_t>(model.layers, static_cast<int64_t>(model.mixers.size())); ++l) {
    if (std::ranges::find(used, model.mixer(l)) == used.end()) used.push_back(model.mixer(l));
  }
  return used;
}

std::span<const int64_t> grid_of(const ModelConfig& model) {
  const std::vector<Mixer> used = mixers_used(model);
  if (std::ranges::find(used, Mixer::kLightnet) == used.end()) return {};
  return model.lightnet.grid;
}

void declare_factors(OptionSet& set, const std::string& group, const std::string& layers, double& alpha,
                     double& beta) {
  set.add(group + ".alpha", alpha,
          fmt::format("model.alpha behind the sequence mixers of {} layers; 0: as model.alpha.", layers))
      .at_least(0)
      .at_most(1000);
  set.add(group + ".beta", beta,
          fmt::format("model.beta behind the sequence mixers of {} layers; 0: as model.beta.", layers))
      .at_least(0)
      .at_most(1000);
}

void declare_mixers(OptionSet& set, ModelConfig& model) {
  for (const SequenceMixerEntry* entry : kSequenceMixers) entry->declare(set, model);
  for (const ChannelMixerEntry* entry : kChannelMixers) {
    if (entry->declare != nullptr) entry->declare(set, model);
  }
}

void check_mixers(const ModelConfig& model, std::vector<Problem>& out) {
  for (const Mixer mixer : mixers_used(model)) {
    if (entry_of(mixer).check != nullptr) entry_of(mixer).check(model, out);
  }
  for (const ChannelMixer mixer : model.channel_mixers_used()) {
    if (entry_of(mixer).check != nullptr) entry_of(mixer).check(model, out);
  }
  check_biases(model, out);
  check_order(model, out);
}

double BlockSizes::norm_sums(int64_t count) const {
  return std::min(128.0, tokens / 8) * static_cast<double>(count) * wide;
}

MixerTensor head_rows(std::string name, Role role, int64_t heads, int64_t head_dim, int64_t in) {
  return {.name = std::move(name),
          .role = role,
          .out = heads * head_dim,
          .in = in,
          .cut = MixerTensor::Cut::kRows,
          .heads = heads};
}

MixerTensor head_columns(std::string name, Role role, int64_t out, int64_t heads, int64_t head_dim) {
  return {.name = std::move(name),
          .role = role,
          .out = out,
          .in = heads * head_dim,
          .cut = MixerTensor::Cut::kColumns,
          .heads = heads};
}

MixerTensor head_vector(std::string name, Role role, int64_t heads, int64_t head_dim) {
  return {.name = std::move(name),
          .role = role,
          .out = heads * head_dim,
          .cut = MixerTensor::Cut::kRows,
          .heads = heads};
}

MixerTensor below(MixerTensor tensor) {
  tensor.beside = true;
  return tensor;
}

MixerTensor grouped(MixerTensor tensor) {
  tensor.grouped = true;
  return tensor;
}

std::vector<int64_t> MixerStateTensor::shape_on(int64_t tensor_ranks) const {
  std::vector<int64_t> own = shape;
  if (cut < 0) return own;
  int64_t& length = own.at(static_cast<size_t>(cut));
  length = (length - grouped) / tensor_ranks +
           (grouped == 0 ? 0 : grouped / std::min(tensor_ranks, grouped_heads));
  return own;
}

int64_t MixerStateTensor::elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::vector<MixerStateTensor> state_of(const RecurrenceSizes& sizes) {
  return {{.name = "recurrence", .shape = {sizes.heads, sizes.key, sizes.value}, .wide = true}};
}

std::vector<MixerStateTensor> state_of(const AttentionSizes& sizes) {
  const int64_t heads = sizes.kv_heads;
  return {{.name = "keys",
           .shape = {heads, sizes.head_dim},
           .of_token = true,
           .grouped = heads,
           .grouped_heads = heads},
          {.name = "values",
           .shape = {heads, sizes.value_dim},
           .of_token = true,
           .grouped = heads,
           .grouped_heads = heads}};
}

}  // namespace longhaul::recipe
