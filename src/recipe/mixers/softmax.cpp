#include "recipe/mixers/softmax.h"

#include "recipe/check.h"
#include "recipe/mixers.h"
#include "recipe/option.h"

namespace longhaul::recipe {

namespace {

void declare_softmax(OptionSet& set, ModelConfig& model) {
  set.add("model.kv_heads", model.softmax.kv_heads,
          "Key and value heads of softmax layers, shared by groups of query heads; divides model.heads.")
      .at_least(1)
      .at_most(1 << 16)
      .also_called({"num_key_value_heads", "n_kv_heads"});
  set.add("model.rotary_dim", model.softmax.rotary_dim, "Rotated channels of each softmax head, from the first on; even.")
      .unit("channels")
      .at_least(0)
      .at_most(1 << 14);
  set.add("model.rotary_base", model.softmax.rotary_base, "Base of the rotary frequencies.")
      .above(1)
      .at_most(1e15)
      .also_called({"rope_theta", "rope_base"});
}

void check_softmax(const ModelConfig& model, std::vector<Problem>& out) {
  const auto& [kv_heads, rotary_dim, rotary_base] = model.softmax;
  if (model.heads % kv_heads != 0) {
    out.push_back({{"model.kv_heads", "model.heads"},
                   fmt::format("model.kv_heads = {} must divide model.heads = {}: every key head serves the same number of query heads",
                               kv_heads, model.heads),
                   fmt::format("model.kv_heads={}", model.heads)});
  }
  if (model.position != Position::kRotary) return;
  if (rotary_dim > model.head_dim) {
    out.push_back({{"model.rotary_dim", "model.head_dim"},
                   fmt::format("model.rotary_dim = {} is more than model.head_dim = {}", rotary_dim, model.head_dim),
                   fmt::format("model.rotary_dim={}", model.head_dim / 2 * 2)});
  }
  if (rotary_dim % 2 != 0 || rotary_dim == 0) {
    out.push_back({{"model.rotary_dim"},
                   fmt::format("model.rotary_dim = {} must be even and not 0: channels are rotated in pairs", rotary_dim),
                   "for no positions at all, model.position=none"});
  }
}

OperatorSizes softmax_operators(const ModelConfig& model) {
  return {.attention = {.heads = model.heads,
                        .kv_heads = model.softmax.kv_heads,
                        .head_dim = model.head_dim,
                        .rotary_dim = model.position == Position::kRotary ? model.softmax.rotary_dim : 0}};
}

std::vector<MixerTensor> softmax_tensors(const ModelConfig& model) {
  return {head_rows("mixer.query", Role::kQuery, model.heads, model.head_dim, model.hidden),
          below(head_rows("mixer.key", Role::kKey, model.softmax.kv_heads, model.head_dim, model.hidden)),
          below(head_rows("mixer.value", Role::kValue, model.softmax.kv_heads, model.head_dim, model.hidden)),
          head_columns("mixer.output", Role::kOutput, model.hidden, model.heads, model.head_dim)};
}

std::vector<MixerStateTensor> softmax_state(const ModelConfig& model) { return state_of(softmax_operators(model).attention); }

BlockMemory softmax_memory(const ModelConfig& model, const BlockSizes& size) {
  const double qkv = size.channels((model.heads + 2 * model.softmax.kv_heads) * model.head_dim);
  const double o = size.channels(model.heads * model.head_dim), log_sums = size.tokens * static_cast<double>(model.heads) * size.wide;
  return {.kept = qkv + o + log_sums,
          .backward = size.hidden + o + qkv,  // of the residual, o, and q, k, v
          .again = size.hidden + o + qkv,
          .evaluation = qkv + o + log_sums + 3 * size.hidden};  // residual, input, output
}

}  // namespace

constinit const SequenceMixerEntry kSoftmaxMixer{.name = "softmax",
                                                 .biases = true,
                                                 .declare = declare_softmax,
                                                 .check = check_softmax,
                                                 .operators = softmax_operators,
                                                 .tensors = softmax_tensors,
                                                 .state = softmax_state,
                                                 .memory = softmax_memory};

}  // namespace longhaul::recipe
