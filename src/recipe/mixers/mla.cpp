#include "recipe/mixers/mla.h"

#include <algorithm>

#include "recipe/check.h"
#include "recipe/mixers.h"
#include "recipe/options/option.h"

namespace longhaul::recipe {

namespace {

void declare_mla(OptionSet& set, ModelConfig& model) {
  set.add("model.mla.kv_rank", model.mla.kv_rank,
          "Channels of the latent vector of each token that an mla layer's keys and values are made of. 0: "
          "four times model.head_dim.")
      .unit("channels")
      .at_least(0)
      .at_most(1 << 16)
      .also_called({"kv_lora_rank"});
  set.add("model.mla.query_rank", model.mla.query_rank,
          "Channels of the latent vector that an mla layer's queries are made of. 0: they are made of the "
          "layer's input itself.")
      .unit("channels")
      .at_least(0)
      .at_most(1 << 16)
      .also_called({"q_lora_rank"});
  set.add("model.mla.key_dim", model.mla.key_dim,
          "Channels of each mla head's query and key beside model.mla.rotary_dim, which are never rotated. "
          "0: as many as model.head_dim.")
      .unit("channels")
      .at_least(0)
      .at_most(1 << 14)
      .also_called({"qk_nope_head_dim"});
  set.add("model.mla.rotary_dim", model.mla.rotary_dim,
          "Channels of each mla head's query, and of the one key that all heads of the layer share, beside "
          "model.mla.key_dim: rotated where "
          "model.position is rotary, left as they are where it is not. 0: none.")
      .unit("channels")
      .at_least(0)
      .at_most(1 << 14)
      .also_called({"qk_rope_head_dim"});
  set.add("model.mla.value_dim", model.mla.value_dim,
          "Channels of each mla head's value. 0: as many as model.head_dim.")
      .unit("channels")
      .at_least(0)
      .at_most(1 << 14)
      .also_called({"v_head_dim"});
  set.add("model.mla.norm_eps", model.mla.norm_eps,
          "Added to the mean square inside the normalisation of the latents of mla layers.")
      .above(0)
      .at_most(1);
}

void check_mla(const ModelConfig& model, std::vector<Problem>& out) {
  const std::vector<Mixer> used = mixers_used(model);
  if (std::ranges::find(used, Mixer::kSoftmax) == used.end()) check_attention(model, out);
  if (model.position != Position::kRotary) return;
  if (model.mla.rotary_dim % 2 != 0 || model.mla.rotary_dim == 0) {
    out.push_back(
        {{"model.mla.rotary_dim", "model.position"},
         fmt::format("model.mla.rotary_dim = {} must be even and not 0: channels are rotated in pairs",
                     model.mla.rotary_dim),
         "for no positions at all, model.position=none"});
  }
}

OperatorSizes mla_operators(const ModelConfig& model) {
  const MlaOptions sizes = mla_sizes(model);
  return {.attention = {.heads = model.heads,
                        .kv_heads = model.heads,
                        .head_dim = sizes.key_dim + sizes.rotary_dim,
                        .rotary_dim = model.position == Position::kRotary ? sizes.rotary_dim : 0,
                        .value_dim = sizes.value_dim}};
}

std::vector<MixerTensor> mla_tensors(const ModelConfig& model) {
  const MlaOptions sizes = mla_sizes(model);
  const int64_t query_in = sizes.query_rank > 0 ? sizes.query_rank : model.hidden;
  std::vector<MixerTensor> tensors;
  if (sizes.query_rank > 0)
    tensors.push_back(
        {.name = "mixer.query_down", .role = Role::kQuery, .out = sizes.query_rank, .in = model.hidden});
  tensors.push_back({.name = "mixer.latent",
                     .role = Role::kKey,
                     .out = sizes.kv_rank,
                     .in = model.hidden,
                     .beside = sizes.query_rank > 0});
  if (sizes.rotary_dim > 0)
    tensors.push_back(
        below({.name = "mixer.shared_key", .role = Role::kKey, .out = sizes.rotary_dim, .in = model.hidden}));
  if (sizes.query_rank > 0)
    tensors.push_back({.name = "mixer.query_norm", .role = Role::kNorm, .out = sizes.query_rank});
  tensors.push_back({.name = "mixer.latent_norm", .role = Role::kNorm, .out = sizes.kv_rank});
  tensors.push_back(
      head_rows("mixer.query", Role::kQuery, model.heads, sizes.rotary_dim + sizes.key_dim, query_in));
  tensors.push_back(head_rows("mixer.key", Role::kKey, model.heads, sizes.key_dim, sizes.kv_rank));
  tensors.push_back(head_rows("mixer.value", Role::kValue, model.heads, sizes.value_dim, sizes.kv_rank));
  tensors.push_back(head_columns("mixer.output", Role::kOutput, model.hidden, model.heads, sizes.value_dim));
  return tensors;
}

// The latent and the shared key of each token, which every tensor rank has whole.
std::vector<MixerStateTensor> mla_state(const ModelConfig& model) {
  const MlaOptions sizes = mla_sizes(model);
  return {{.name = "keys",
           .shape = {1, sizes.kv_rank + sizes.rotary_dim},
           .of_token = true,
           .cut = -1,
           .values = sizes.kv_rank}};
}

BlockMemory mla_memory(const ModelConfig& model, const BlockSizes& size) {
  const MlaOptions sizes = mla_sizes(model);
  const double q = size.channels(model.heads * (sizes.key_dim + sizes.rotary_dim)),
               v = size.channels(model.heads * sizes.value_dim);
  const double log_sums = size.tokens * static_cast<double>(model.heads) * size.wide;
  // Latents as computed and normalised, and a root of each norm.
  const double latents = size.channels(sizes.kv_rank + sizes.query_rank),
               roots = (sizes.query_rank > 0 ? 2 : 1) * size.tokens * size.wide;
  const double backward = size.hidden + 2 * q + 2 * v;  // of the residual, o, and q, k, v
  return {.kept = 2 * q + 2 * v + log_sums + 2 * latents + roots,
          .backward = backward,
          .cheap = latents,
          .again = backward,
          .evaluation = 2 * q + 2 * v + log_sums + 2 * latents + 3 * size.hidden};  // residual, input, output
}

}  // namespace

MlaOptions mla_sizes(const ModelConfig& model) {
  MlaOptions sizes = model.mla;
  if (sizes.kv_rank == 0) sizes.kv_rank = 4 * model.head_dim;
  if (sizes.key_dim == 0) sizes.key_dim = model.head_dim;
  if (sizes.value_dim == 0) sizes.value_dim = model.head_dim;
  return sizes;
}

constinit const SequenceMixerEntry kMlaMixer{.name = "mla",
                                             .attention_alone = true,
                                             .declare = declare_mla,
                                             .check = check_mla,
                                             .operators = mla_operators,
                                             .tensors = mla_tensors,
                                             .state = mla_state,
                                             .memory = mla_memory};

}  // namespace longhaul::recipe
