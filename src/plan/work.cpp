#include "plan/work.h"

#include <algorithm>
#include <numeric>

#include "layout/parameters.h"
#include "plan/memory/memory_layers.h"
#include "plan/memory/memory_workspace.h"

namespace longhaul::plan {
namespace {

constexpr double kStateElement = 4;  // bytes: states are fp32

GroupedHeads& grouped_of(Work& work, int64_t heads) {
  const auto found = std::ranges::find(work.grouped, heads, &GroupedHeads::heads);
  return found != work.grouped.end() ? *found : work.grouped.emplace_back(GroupedHeads{.heads = heads});
}

// The share of all, and for grouped heads at least one head.
double shared(double all, const std::vector<GroupedHeads>& grouped, double GroupedHeads::*of_them,
              int64_t tp) {
  double share = all / number(tp);
  for (const GroupedHeads& each : grouped)
    share += each.*of_them * (1 / number(std::min(tp, each.heads)) - 1 / number(tp));
  return share;
}

void add_parameters(const recipe::ModelConfig& model, Work& work) {
  const double per_token = work.experts > 0 ? work.experts_per_token / work.experts : 1;
  for (const layout::ParameterSpec& spec : layout::parameters(model)) {
    const double elements = number(spec.elements());
    if (spec.layer < 0) {  // modules that predict further ahead are with the head
      (spec.tensor.role == layout::Role::kHead || spec.ahead >= 0 ? work.head_parameters
                                                                  : work.embedding_parameters) += elements;
      continue;
    }
    const bool product =
        spec.tensor.global_shape.size() == 2 && spec.tensor.role != layout::Role::kLowerBound;
    (spec.expert >= 0 ? work.expert_parameters : work.dense_parameters) += elements / work.layers;
    if (product && spec.expert >= 0) work.expert_products += per_token * elements / work.layers;
    if (product && spec.expert < 0) work.dense_products += elements / work.layers;
    if (!spec.split.grouped) continue;
    GroupedHeads& grouped = grouped_of(
        work, spec.tensor.global_shape[static_cast<size_t>(spec.split.dimension)] / spec.split.unit);
    grouped.parameters += elements / work.layers;
    if (product) grouped.products += elements / work.layers;
  }
}

// Two in and one out for a gated mixer, one in and one out for others, of two bytes; each chosen expert's row
// is read and written, in both directions.
void add_elementwise(const recipe::ModelConfig& model, Work& work) {
  const double numbers = model.channel == recipe::Channel::kGelu ? 2 : 3,
               chosen = number(model.experts_per_token);
  for (int64_t l = 0; l < model.layers; ++l) {
    const recipe::ChannelMixer mixer = model.channel_mixer(l);
    if (mixer == recipe::ChannelMixer::kNone) continue;
    const bool experts = mixer == recipe::ChannelMixer::kExperts;
    const double width =
        number(model.intermediate) * (experts ? chosen : 1) + (experts ? number(model.shared_width()) : 0);
    work.activation_bytes += 2 * numbers * width / work.layers;
    if (experts) work.dispatch_bytes += 4 * (1 + chosen) * work.hidden / work.layers;
  }
}

// Per token: of a micro-batch of a sequence, over its tokens.
void add_activations(const recipe::ModelConfig& model, Work& work) {
  const MemoryRequest request{.model = model, .sequence = static_cast<int64_t>(work.sequence)};
  const MemoryRequest by_tokens{.model = model,
                                .sequence = static_cast<int64_t>(work.sequence),
                                .recompute = recipe::Recompute::kTokens};
  const double norms = 2 * norm_bytes(request);
  for (int64_t l = 0; l < model.layers; ++l) {
    const BlockMemory mixer = mixer_memory(request, l),
                      channel = channel_memory(request, model.channel_mixer(l));
    const auto [attention, recurrence, angles, delta_rule] = recipe::operators_of_layer(model, l);
    const double bytes = number(element_bytes(request.dtype)) / work.layers;
    if (attention.heads > attention.kv_heads)
      grouped_of(work, attention.kv_heads).kept_bytes +=
          bytes * number(attention.kv_heads * (attention.head_dim + attention.value_dim));
    if (delta_rule.heads > delta_rule.key_heads)
      grouped_of(work, delta_rule.key_heads).kept_bytes +=
          2 * bytes * number(delta_rule.key_heads * delta_rule.key);
    const double attention_bytes = mixer_result_bytes(request, l).total() / work.sequence / work.layers;
    work.attention_bytes += attention_bytes;
    work.row_bytes += product_row_bytes(request, l) / work.sequence / work.layers;
    work.recurrence_bytes +=
        mixer_result_bytes(by_tokens, l).total() / work.sequence / work.layers - attention_bytes;
    work.kept_bytes += (mixer.kept + channel.kept + norms) / work.sequence / work.layers;
    work.cheap_bytes += (mixer.cheap + channel.cheap + norms / 2) / work.sequence / work.layers;
  }
  work.input_bytes = hidden_bytes(request) / work.sequence;
}

}  // namespace

layout::SharedWork Work::shared_work(int64_t batch) const {
  return {.layers = static_cast<int64_t>(layers),
          .heads = heads,
          .key_heads = kv_heads,
          .linear_heads = linear_heads,
          .experts = expert_count,
          .batch = batch,
          .judges_batch = judges_batch};
}

double Work::dense_parameters_of(int64_t tp) const {
  return shared(dense_parameters, grouped, &GroupedHeads::parameters, tp);
}
double Work::dense_products_of(int64_t tp) const {
  return shared(dense_products, grouped, &GroupedHeads::products, tp);
}

double Work::kept_of(recipe::Recompute recompute, int64_t tp) const {
  if (runs_layers_again(recompute)) {
    const double recurrence = recompute == recipe::Recompute::kTokens ? recurrence_bytes : 0;
    return (input_bytes + attention_bytes + recurrence) / number(tp);
  }
  const double cheap = recompute == recipe::Recompute::kSelective ? cheap_bytes : 0;
  return shared(kept_bytes - cheap, grouped, &GroupedHeads::kept_bytes, tp);
}

Work work_of(const recipe::ModelConfig& model, int64_t sequence) {
  Work work{.layers = number(model.layers),
            .hidden = number(model.hidden),
            .vocabulary = number(model.vocabulary),
            .sequence = number(sequence)};
  work.head_rows = work.vocabulary * work.hidden;
  work.experts = number(model.experts);
  work.experts_per_token = number(model.experts_per_token);
  work.expert_count = model.experts;
  work.heads = model.heads;
  work.kv_heads = model.heads;
  work.causal = model.causal;
  work.judges_batch = model.shares_batch();
  work.parallel_block = model.wiring == recipe::Wiring::kParallel;
  for (int64_t l = 0; l < model.layers; ++l) {
    const auto [attention, recurrence, angles, delta_rule] = recipe::operators_of_layer(model, l);
    work.attention_channels +=
        number(attention.heads * (attention.head_dim + attention.value_dim)) / 2 / work.layers;
    work.attention_heads += number(attention.heads) / work.layers;
    work.key_value_channels +=
        number(attention.kv_heads * (attention.head_dim + attention.value_dim)) / work.layers;
    const double state = number(recurrence.heads * recurrence.key * recurrence.value) / work.layers;
    work.recurrence_products += state;
    (recurrence.causal ? work.state_bytes : work.summed_state_bytes) += kStateElement * state;
    work.delta_state_bytes +=
        kStateElement * number(delta_rule.heads * delta_rule.key * (delta_rule.key + delta_rule.value)) /
        work.layers;
    // as in flops.cpp
    work.recurrence_products +=
        1.5 * number(delta_rule.heads * delta_rule.key * delta_rule.value) / work.layers;
    if (attention.heads > 0) work.kv_heads = attention.kv_heads;
    work.linear_channels +=
        number(2 * (recurrence.causal ? recurrence.heads : 0) * (recurrence.key + recurrence.value) +
               2 * (delta_rule.key_heads * delta_rule.key + delta_rule.heads * delta_rule.value)) /
        work.layers;
    work.linear_heads =
        std::gcd(work.linear_heads, recipe::linear_heads(recipe::operators_of_layer(model, l)));
  }
  add_parameters(model, work);
  add_activations(model, work);
  add_elementwise(model, work);
  work.flops = training_flops_per_token(model, sequence);
  return work;
}

}  // namespace longhaul::plan
