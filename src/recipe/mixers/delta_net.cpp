#include "recipe/mixers/delta_net.h"

#include <algorithm>
#include <string>

#include "recipe/check.h"
#include "recipe/mixers.h"
#include "recipe/options/option.h"

namespace longhaul::recipe {

namespace {

constexpr int64_t kMostTaps = 16;  // kernels/short_convolution

// Options that both have, under their own keys.
template <class Options>
void declare_common(OptionSet& set, Options& options, const std::string& mixer) {
  const std::string prefix = "model." + mixer + ".";
  set.add(prefix + "key_dim", options.key_dim,
          "Key channels of each " + mixer +
              " head: a head's state is this times model.head_dim. 0: as many as model.head_dim.")
      .unit("channels")
      .at_least(0)
      .at_most(1 << 14);
  set.add(prefix + "convolution", options.convolution,
          "Tokens that the short convolution before the queries, keys and values of " + mixer +
              " layers sees.")
      .unit("tokens")
      .at_least(1)
      .at_most(kMostTaps);
  set.add(prefix + "negative_eigenvalues", options.negative_eigenvalues,
          "Whether " + mixer +
              " layers may write up to twice what they correct (arXiv 2411.12537), or up to once.");
  set.add(prefix + "norm_eps", options.norm_eps,
          "Added to the mean square inside the normalisation of each " + mixer + " head.")
      .above(0)
      .at_most(1);
}

void declare_gated_deltanet(OptionSet& set, ModelConfig& model) {
  set.add("model.gated_deltanet.heads", model.gated_deltanet.heads,
          "Heads of gated_deltanet layers; 0: model.heads.")
      .at_least(0)
      .at_most(1 << 16);
  set.add("model.gated_deltanet.head_dim", model.gated_deltanet.head_dim,
          "Value channels of each gated_deltanet head; 0: model.head_dim.")
      .unit("channels")
      .at_least(0)
      .at_most(1 << 14);
  set.add("model.gated_deltanet.key_heads", model.gated_deltanet.key_heads,
          "Query and key heads of gated_deltanet layers, each shared by a group of value heads, whose number "
          "it divides. 0: as many.")
      .at_least(0)
      .at_most(1 << 16);
  declare_common(set, model.gated_deltanet, "gated_deltanet");
}

void declare_kda(OptionSet& set, ModelConfig& model) {
  declare_common(set, model.kda, "kda");
  set.add("model.kda.rank", model.kda.rank,
          "Inner channels of the matrices that make the forget and the output gate of kda layers. 0: as many "
          "as model.head_dim.")
      .unit("channels")
      .at_least(0)
      .at_most(1 << 16);
}

void declare_deltanet(OptionSet& set, ModelConfig& model) {
  declare_common(set, model.deltanet, "deltanet");
  set.add("model.deltanet.output_gate", model.deltanet.output_gate,
          "Whether the output of deltanet layers has a gate, silu(x W).");
}

int64_t own_heads(const ModelConfig& model) {
  return model.gated_deltanet.heads > 0 ? model.gated_deltanet.heads : model.heads;
}

void check_gated_deltanet(const ModelConfig& model, std::vector<Problem>& out) {
  const int64_t key_heads = model.gated_deltanet.key_heads;
  if (key_heads == 0 || own_heads(model) % key_heads == 0) return;
  const std::string heads = model.gated_deltanet.heads > 0 ? "model.gated_deltanet.heads" : "model.heads";
  out.push_back({{"model.gated_deltanet.key_heads", heads},
                 fmt::format("model.gated_deltanet.key_heads = {} must divide {} = {}: every key head serves "
                             "the same number of value heads",
                             key_heads, heads, own_heads(model)),
                 "model.gated_deltanet.key_heads=0"});
}

OperatorSizes gated_deltanet_operators(const ModelConfig& model) {
  const GatedDeltaNetOptions& own = model.gated_deltanet;
  const int64_t heads = own_heads(model), value = own.head_dim > 0 ? own.head_dim : model.head_dim;
  return {.delta_rule = {.heads = heads,
                         .key_heads = own.key_heads > 0 ? own.key_heads : heads,
                         .key = own.key_dim > 0 ? own.key_dim : value,
                         .value = value}};
}

OperatorSizes kda_operators(const ModelConfig& model) {
  const int64_t key = model.kda.key_dim > 0 ? model.kda.key_dim : model.head_dim;
  return {.delta_rule = {.heads = model.heads,
                         .key_heads = model.heads,
                         .key = key,
                         .value = model.head_dim,
                         .by_channel = true}};
}

OperatorSizes deltanet_operators(const ModelConfig& model) {
  const int64_t key = model.deltanet.key_dim > 0 ? model.deltanet.key_dim : model.head_dim;
  return {
      .delta_rule = {.heads = model.heads, .key_heads = model.heads, .key = key, .value = model.head_dim}};
}

MixerTensor convolution_of(std::string name, int64_t heads, int64_t head_dim, int64_t taps) {
  return head_rows(std::move(name), Role::kConvolution, heads, head_dim, taps);
}

MixerTensor filled(Fill fill, MixerTensor tensor) {
  tensor.fill = fill;
  return tensor;
}

// Queries, keys and values, as every delta rule has them.
std::vector<MixerTensor> delta_inputs(const ModelConfig& model, const DeltaRuleSizes& sizes) {
  return {grouped(head_rows("mixer.query", Role::kQuery, sizes.key_heads, sizes.key, model.hidden)),
          below(grouped(head_rows("mixer.key", Role::kKey, sizes.key_heads, sizes.key, model.hidden))),
          below(head_rows("mixer.value", Role::kValue, sizes.heads, sizes.value, model.hidden))};
}

void add_delta_rest(std::vector<MixerTensor>& tensors, const ModelConfig& model, const DeltaRuleSizes& sizes,
                    int64_t taps, bool decays = true) {
  tensors.push_back(grouped(convolution_of("mixer.query_convolution", sizes.key_heads, sizes.key, taps)));
  tensors.push_back(grouped(convolution_of("mixer.key_convolution", sizes.key_heads, sizes.key, taps)));
  tensors.push_back(convolution_of("mixer.value_convolution", sizes.heads, sizes.value, taps));
  if (decays) {
    tensors.push_back(filled(Fill::kLogRates, head_vector("mixer.rate", Role::kCoefficient, sizes.heads, 1)));
    tensors.push_back(
        filled(sizes.by_channel ? Fill::kZeros : Fill::kSteps,
               head_vector("mixer.step", Role::kCoefficient, sizes.heads, sizes.by_channel ? sizes.key : 1)));
  }
  tensors.push_back({.name = "mixer.norm", .role = Role::kNorm, .out = sizes.value});  // one for all heads
  tensors.push_back(head_columns("mixer.output", Role::kOutput, model.hidden, sizes.heads, sizes.value));
}

std::vector<MixerTensor> gated_deltanet_tensors(const ModelConfig& model) {
  const DeltaRuleSizes sizes = gated_deltanet_operators(model).delta_rule;
  std::vector<MixerTensor> tensors = delta_inputs(model, sizes);
  tensors.push_back(below(head_rows("mixer.gate", Role::kGate, sizes.heads, sizes.value, model.hidden)));
  tensors.push_back(below(head_rows("mixer.write", Role::kWrite, sizes.heads, 1, model.hidden)));
  tensors.push_back(below(head_rows("mixer.forget", Role::kForget, sizes.heads, 1, model.hidden)));
  add_delta_rest(tensors, model, sizes, model.gated_deltanet.convolution);
  return tensors;
}

std::vector<MixerTensor> kda_tensors(const ModelConfig& model) {
  const DeltaRuleSizes sizes = kda_operators(model).delta_rule;
  const int64_t rank = model.kda.rank > 0 ? model.kda.rank : model.head_dim;
  std::vector<MixerTensor> tensors = delta_inputs(model, sizes);
  tensors.push_back(below(head_rows("mixer.write", Role::kWrite, sizes.heads, 1, model.hidden)));
  tensors.push_back({.name = "mixer.forget_down", .role = Role::kForget, .out = rank, .in = model.hidden});
  tensors.push_back(below({.name = "mixer.gate_down", .role = Role::kGate, .out = rank, .in = model.hidden}));
  tensors.push_back(head_rows("mixer.forget", Role::kForget, sizes.heads, sizes.key, rank));
  tensors.push_back(head_rows("mixer.gate", Role::kGate, sizes.heads, sizes.value, rank));
  add_delta_rest(tensors, model, sizes, model.kda.convolution);
  return tensors;
}

std::vector<MixerTensor> deltanet_tensors(const ModelConfig& model) {
  const DeltaRuleSizes sizes = deltanet_operators(model).delta_rule;
  std::vector<MixerTensor> tensors = delta_inputs(model, sizes);
  tensors.push_back(below(head_rows("mixer.write", Role::kWrite, sizes.heads, 1, model.hidden)));
  if (model.deltanet.output_gate)
    tensors.push_back(below(head_rows("mixer.gate", Role::kGate, sizes.heads, sizes.value, model.hidden)));
  add_delta_rest(tensors, model, sizes, model.deltanet.convolution, /*decays=*/false);
  return tensors;
}

int64_t convolved_channels(const DeltaRuleSizes& sizes) {
  return 2 * sizes.key_heads * sizes.key + sizes.heads * sizes.value;
}

std::vector<MixerStateTensor> delta_state(const DeltaRuleSizes& sizes, int64_t taps) {
  return {{.name = "recurrence", .shape = {sizes.heads, sizes.key, sizes.value}, .wide = true},
          {.name = "convolution",
           .shape = {taps - 1, convolved_channels(sizes)},
           .cut = 1,
           .grouped = 2 * sizes.key_heads * sizes.key,
           .grouped_heads = sizes.key_heads}};
}
std::vector<MixerStateTensor> gated_deltanet_state(const ModelConfig& model) {
  return delta_state(gated_deltanet_operators(model).delta_rule, model.gated_deltanet.convolution);
}
std::vector<MixerStateTensor> deltanet_state(const ModelConfig& model) {
  return delta_state(deltanet_operators(model).delta_rule, model.deltanet.convolution);
}
std::vector<MixerStateTensor> kda_state(const ModelConfig& model) {
  return delta_state(kda_operators(model).delta_rule, model.kda.convolution);
}

// The bytes that both have.
struct DeltaBytes {
  DeltaBytes(const DeltaRuleSizes& sizes, const BlockSizes& size)
      : keys(size.channels(sizes.key_heads * sizes.key)),
        values(size.channels(sizes.heads * sizes.value)),
        of_heads(size.tokens * static_cast<double>(sizes.heads) * size.wide),
        decays(of_heads * static_cast<double>(sizes.by_channel ? sizes.key : 1)),
        ends(size.documents * static_cast<double>(sizes.heads * sizes.key * sizes.value) * size.wide),
        norm_sums(std::min(128.0, size.tokens * static_cast<double>(sizes.heads) / 8) *
                  static_cast<double>(sizes.value) * size.wide),
        // The output of the convolution; queries and keys before and after their normalisation, with their
        // roots; β before and after its scaling, and decays; o and its root; the states between spans.
        kept((2 * keys + values) + 4 * keys + 2 * of_heads + decays + values +
             size.tokens * static_cast<double>(2 * sizes.key_heads + sizes.heads) * size.wide + size.states) {
  }
  double keys, values, of_heads, decays, ends, norm_sums, kept;
};

BlockMemory gated_deltanet_memory(const ModelConfig& model, const BlockSizes& size) {
  const DeltaRuleSizes sizes = gated_deltanet_operators(model).delta_rule;
  const DeltaBytes each(sizes, size);
  const double k = each.keys, v = each.values,
               made = size.channels(convolved_channels(sizes) + sizes.heads * (sizes.value + 2));
  return {// The gate as read by the norm, the normalised o, and their product.
          .kept = made + each.kept + 3 * v,
          // The norm: its gradient, its gate twice, and o, while two of those three are gone. Then the delta
          // rule, with all of them and o gone.
          .backward = size.hidden + std::max(2 * v + each.norm_sums, 2 * k - v + each.ends),
          .cheap = 2 * k + v,  // outputs of norms
          .again = size.hidden + std::max(3 * v + each.norm_sums, 4 * k + each.ends),
          .evaluation = made + 5 * k + 4 * v + 3 * each.of_heads + each.ends + 2 * size.hidden};
}

// Like gated_deltanet, without decays and usually without what the gate keeps.
BlockMemory deltanet_memory(const ModelConfig& model, const BlockSizes& size) {
  const DeltaRuleSizes sizes = deltanet_operators(model).delta_rule;
  const DeltaBytes each(sizes, size);
  const double k = each.keys, v = each.values, gate = model.deltanet.output_gate ? v : 0;
  const double made = size.channels(convolved_channels(sizes) + sizes.heads) + gate;
  return {.kept = made + each.kept - each.decays + v + 2 * gate,
          .backward = size.hidden + std::max(v + gate + each.norm_sums, 2 * k - v + each.ends),
          // Queries and keys before and after their normalisation, the output of the norm and, where nothing
          // else keeps it, its input.
          .cheap = 4 * k + 2 * v - gate,
          .again = size.hidden + std::max(3 * v + gate + each.norm_sums, 6 * k + each.ends),
          .evaluation = made + 5 * k + 3 * v + gate + 2 * each.of_heads + each.ends + 2 * size.hidden};
}

BlockMemory kda_memory(const ModelConfig& model, const BlockSizes& size) {
  const DeltaRuleSizes sizes = kda_operators(model).delta_rule;
  const int64_t rank = model.kda.rank > 0 ? model.kda.rank : model.head_dim;
  const DeltaBytes each(sizes, size);
  const double k = each.keys, v = each.values,
               made = size.channels(convolved_channels(sizes) + sizes.heads * (sizes.value + sizes.key + 1) +
                                    2 * rank);
  // The norm, the delta rule, then the decays, four of which exist in fp32.
  return {.kept = made + each.kept + v,  // the normed o
          .backward = size.hidden + std::max({2 * v + each.norm_sums, 2 * k + each.decays + each.ends,
                                              3 * each.decays - v}),
          .cheap = 2 * k + v,
          .again = size.hidden + std::max({3 * v + each.norm_sums, v + 4 * k + each.decays + each.ends,
                                           2 * k + 3 * each.decays}),
          .evaluation = made + 5 * k + 3 * v + 2 * each.of_heads + each.decays + each.ends + 2 * size.hidden};
}

}  // namespace

constinit const SequenceMixerEntry kGatedDeltaNetMixer{.name = "gated_deltanet",
                                                       .declare = declare_gated_deltanet,
                                                       .check = check_gated_deltanet,
                                                       .operators = gated_deltanet_operators,
                                                       .tensors = gated_deltanet_tensors,
                                                       .state = gated_deltanet_state,
                                                       .memory = gated_deltanet_memory};

constinit const SequenceMixerEntry kDeltaNetMixer{.name = "deltanet",
                                                  .declare = declare_deltanet,
                                                  .operators = deltanet_operators,
                                                  .tensors = deltanet_tensors,
                                                  .state = deltanet_state,
                                                  .memory = deltanet_memory};

constinit const SequenceMixerEntry kKdaMixer{.name = "kda",
                                             .declare = declare_kda,
                                             .operators = kda_operators,
                                             .tensors = kda_tensors,
                                             .state = kda_state,
                                             .memory = kda_memory};

}  // namespace longhaul::recipe
