#include "recipe/mixers/softmax.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "recipe/check.h"
#include "recipe/mixers.h"
#include "recipe/options/option.h"

namespace longhaul::recipe {

namespace {

void declare_softmax(OptionSet& set, ModelConfig& model) {
  set.add("model.kv_heads", model.softmax.kv_heads,
          "Key and value heads of softmax layers, shared by groups of query heads; divides model.heads.")
      .at_least(1)
      .at_most(1 << 16)
      .also_called({"num_key_value_heads", "n_kv_heads"});
  set.add("model.rotary_dim", model.softmax.rotary_dim,
          "Rotated channels of each softmax head, from the first on; even.")
      .unit("channels")
      .at_least(0)
      .at_most(1 << 14);
  set.add("model.rotary_base", model.softmax.rotary_base,
          "Base of the rotary frequencies of softmax and mla layers.")
      .above(1)
      .at_most(1e15)
      .also_called({"rope_theta", "rope_base"});
  set.add("model.softmax.windows", model.softmax.windows,
          "Keys that each token of a softmax or mla layer sees, itself among them, as a pattern repeated "
          "over the model's layers, first layer first; 0: "
          "all before it.")
      .unit("tokens")
      .at_least(0)
      .at_most(2147483647.0)
      .also_called({"sliding_window", "window", "window_size"});
  set.add("model.softmax.window_plus_one", model.softmax.window_plus_one,
          "Whether a window is the keys before the token, so that it sees one more, itself: what flash "
          "attention's windows are, and SpikingBrain's released code.");
  set.add("model.softmax.qk_norm", model.softmax.qk_norm,
          "RMS normalisation of each head's query and key, with weights that all heads share, before they "
          "are rotated (Qwen3).")
      .also_called({"use_qk_norm", "qk_norm"});
  set.add("model.softmax.output_gate", model.softmax.output_gate,
          "Whether the heads of softmax layers are multiplied by a sigmoid of a projection of the layer's "
          "input (Qwen3-Next).")
      .also_called({"attn_output_gate"});
  set.add("model.softmax.bias", model.softmax.bias,
          "Biases of softmax layers alone: none, of queries, keys and values (qkv, Qwen2), or of the output "
          "too (all). model.bias is for all "
          "matrices of the model.")
      .also_called({"attention_bias", "qkv_bias"});
  declare_factors(set, "model.softmax", "softmax", model.softmax.alpha, model.softmax.beta);
}

void declare_rotary_scaling(OptionSet& set, SoftmaxOptions& softmax) {
  set.add("model.softmax.rotary_scaling", softmax.rotary_scaling,
          "How rotary frequencies are stretched for longer sequences: none, linear (all divided by the "
          "factor), or llama3 (long waves alone).")
      .also_called({"rope_scaling", "rope_parameters"});
  set.add("model.softmax.rotary_factor", softmax.rotary_factor, "What rotary_scaling divides frequencies by.")
      .above(0)
      .at_most(1e6);
  set.add("model.softmax.rotary_low", softmax.rotary_low,
          "llama3: waves longer than rotary_original / this are stretched whole.")
      .above(0)
      .at_most(1e6);
  set.add("model.softmax.rotary_high", softmax.rotary_high,
          "llama3: waves shorter than rotary_original / this are left as they are.")
      .above(0)
      .at_most(1e6);
  set.add("model.softmax.rotary_original", softmax.rotary_original,
          "llama3: the longest sequence before the stretching.")
      .unit("tokens")
      .at_least(1)
      .at_most(2147483647.0);
}

void declare_all(OptionSet& set, ModelConfig& model) {
  declare_softmax(set, model);
  declare_rotary_scaling(set, model.softmax);
}

void check_softmax(const ModelConfig& model, std::vector<Problem>& out) {
  const int64_t kv_heads = model.softmax.kv_heads, rotary_dim = model.softmax.rotary_dim;
  if (model.heads % kv_heads != 0) {
    out.push_back({{"model.kv_heads", "model.heads"},
                   fmt::format("model.kv_heads = {} must divide model.heads = {}: every key head serves the "
                               "same number of query heads",
                               kv_heads, model.heads),
                   fmt::format("model.kv_heads={}", model.heads)});
  }
  check_attention(model, out);
  if (model.position != Position::kRotary) return;
  if (rotary_dim > model.head_dim) {
    out.push_back(
        {{"model.rotary_dim", "model.head_dim"},
         fmt::format("model.rotary_dim = {} is more than model.head_dim = {}", rotary_dim, model.head_dim),
         fmt::format("model.rotary_dim={}", model.head_dim / 2 * 2)});
  }
  if (rotary_dim % 2 != 0 || rotary_dim == 0) {
    out.push_back({{"model.rotary_dim"},
                   fmt::format("model.rotary_dim = {} must be even and not 0: channels are rotated in pairs",
                               rotary_dim),
                   "for no positions at all, model.position=none"});
  }
}

OperatorSizes softmax_operators(const ModelConfig& model) {
  return {.attention = {.heads = model.heads,
                        .kv_heads = model.softmax.kv_heads,
                        .head_dim = model.head_dim,
                        .rotary_dim = model.position == Position::kRotary ? model.softmax.rotary_dim : 0,
                        .value_dim = model.head_dim,
                        .causal = model.causal}};
}

std::vector<MixerTensor> softmax_tensors(const ModelConfig& model) {
  const SoftmaxOptions& own = model.softmax;
  const auto biased = [](MixerTensor tensor, bool is) {
    tensor.own_bias = is;
    return tensor;
  };
  const bool qkv = own.bias != AttentionBias::kNone, output = own.bias == AttentionBias::kAll;
  std::vector<MixerTensor> tensors = {
      biased(head_rows("mixer.query", Role::kQuery, model.heads, model.head_dim, model.hidden), qkv),
      biased(below(grouped(head_rows("mixer.key", Role::kKey, own.kv_heads, model.head_dim, model.hidden))),
             qkv),
      biased(
          below(grouped(head_rows("mixer.value", Role::kValue, own.kv_heads, model.head_dim, model.hidden))),
          qkv)};
  if (own.output_gate)
    tensors.push_back(
        biased(head_rows("mixer.gate", Role::kGate, model.heads, model.head_dim, model.hidden), qkv));
  if (own.qk_norm) {
    tensors.push_back({.name = "mixer.query_norm", .role = Role::kNorm, .out = model.head_dim});
    tensors.push_back({.name = "mixer.key_norm", .role = Role::kNorm, .out = model.head_dim});
  }
  tensors.push_back(
      biased(head_columns("mixer.output", Role::kOutput, model.hidden, model.heads, model.head_dim), output));
  return tensors;
}

std::vector<MixerStateTensor> softmax_state(const ModelConfig& model) {
  return state_of(softmax_operators(model).attention);
}

BlockMemory softmax_memory(const ModelConfig& model, const BlockSizes& size) {
  const double qkv = size.channels((model.heads + 2 * model.softmax.kv_heads) * model.head_dim);
  const double o = size.channels(model.heads * model.head_dim),
               log_sums = size.tokens * static_cast<double>(model.heads) * size.wide;
  // With norms of queries and keys, their inputs exist too, and one sum per head; in their backward pass the
  // gradients of all three, of the normalised values, and of both together.
  const double normed =
      model.softmax.qk_norm ? size.channels((model.heads + model.softmax.kv_heads) * model.head_dim) : 0;
  const double sums =
      model.softmax.qk_norm
          ? size.tokens * static_cast<double>(model.heads + model.softmax.kv_heads) * size.wide
          : 0;
  // A gate keeps itself and its product; its gradient exists, with the gradient that it left for the block's
  // input, until queries and keys have theirs.
  const double gate = model.softmax.output_gate ? o : 0;
  const double backward = size.hidden + (gate > 0 ? size.hidden : 0) +
                          // of the residual, o, and q, k, v
                          (normed > 0 ? std::max(o + qkv, 2 * qkv + normed) : o + qkv);
  return {
      .kept = qkv + o + log_sums + normed + sums + 2 * gate,
      .backward = backward,
      .cheap = gate,
      .again = backward + gate,
      // residual, input, output
      .evaluation = qkv + 2 * gate + std::max(o + log_sums, normed > 0 ? qkv + normed : 0) + 3 * size.hidden};
}

}  // namespace

std::vector<std::string_view> names_of(AttentionBias) { return {"none", "qkv", "all"}; }
std::vector<std::string_view> names_of(RotaryScaling) { return {"none", "linear", "llama3"}; }

void check_attention(const ModelConfig& model, std::vector<Problem>& out) {
  if (model.softmax.windows.empty()) {
    out.push_back(
        {{"model.softmax.windows"}, "model.softmax.windows names no layer", "model.softmax.windows=0"});
  }
  if (model.position != Position::kRotary) return;
  if (model.softmax.rotary_scaling == RotaryScaling::kLlama3 &&
      model.softmax.rotary_high <= model.softmax.rotary_low) {
    out.push_back(
        {{"model.softmax.rotary_low", "model.softmax.rotary_high"},
         fmt::format("model.softmax.rotary_high = {} must be more than model.softmax.rotary_low = {}",
                     model.softmax.rotary_high, model.softmax.rotary_low),
         "model.softmax.rotary_low=1 model.softmax.rotary_high=4"});
  }
}

std::vector<double> SoftmaxOptions::rotary_frequencies(int64_t channels) const {
  std::vector<double> frequencies;
  for (int64_t j = 0; j < channels / 2; ++j) {
    double frequency = std::pow(rotary_base, -2.0 * static_cast<double>(j) / static_cast<double>(channels));
    const double stretched = frequency / rotary_factor;
    if (rotary_scaling == RotaryScaling::kLinear) frequency = stretched;
    if (rotary_scaling == RotaryScaling::kLlama3) {
      // Within the original positions.
      const double turns = static_cast<double>(rotary_original) * frequency / (2 * std::numbers::pi);
      const double kept = std::clamp((turns - rotary_low) / (rotary_high - rotary_low), 0.0, 1.0);
      frequency = kept * frequency + (1 - kept) * stretched;
    }
    frequencies.push_back(frequency);
  }
  return frequencies;
}

constinit const SequenceMixerEntry kSoftmaxMixer{.name = "softmax",
                                                 .biases = true,
                                                 .bidirectional = true,
                                                 .attention_alone = true,
                                                 .declare = declare_all,
                                                 .check = check_softmax,
                                                 .operators = softmax_operators,
                                                 .tensors = softmax_tensors,
                                                 .state = softmax_state,
                                                 .memory = softmax_memory};

}  // namespace longhaul::recipe
