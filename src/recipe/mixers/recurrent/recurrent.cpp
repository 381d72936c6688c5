#include "recipe/mixers/recurrent/recurrent.h"

#include <algorithm>
#include <cmath>

namespace longhaul::recipe {

namespace {

using Turn = RecurrentPlan::Turn;
using Decay = RecurrentPlan::Decay;

MixerTensor low_rows(std::string name, Role role, int64_t rank, int64_t in) {
  return {.name = std::move(name), .role = role, .out = rank, .in = in};
}

// Computed with the others.
bool direct_gate(const RecurrentPlan& plan) { return plan.gated && plan.gate_rank == 0 && !plan.gate_bias; }
bool direct_forget(const RecurrentPlan& plan) { return plan.decay == Decay::kGate && plan.decay_rank == 0; }

// Channels of the fused product.
int64_t product_channels(const RecurrentPlan& plan) {
  const int64_t written = (plan.makes_keys() ? 1 : 0) + (direct_forget(plan) ? 1 : 0);
  return plan.heads * (plan.key + (direct_gate(plan) ? plan.value : 0)) +
         plan.memory_heads() * (written * plan.key + plan.value);
}

}  // namespace

std::vector<double> frequencies_of(int64_t count, int64_t channels, double base) {
  std::vector<double> frequencies;
  for (int64_t m = 0; m < count; ++m)
    frequencies.push_back(std::pow(base, -2.0 * static_cast<double>(m) / static_cast<double>(channels)));
  return frequencies;
}

OperatorSizes operators_of(const RecurrentPlan& plan) {
  const bool by_channel = plan.decay == Decay::kGate || plan.decay == Decay::kCumulative;
  return {.recurrence = {.heads = plan.heads,
                         .key = plan.state_keys(),
                         .value = plan.state_values(),
                         .gated = by_channel,
                         .causal = plan.decay != Decay::kWhole},
          .angles = plan.turn == Turn::kNone || plan.learned_turn ? 0
                    : plan.grid.empty() ? static_cast<int64_t>(plan.frequencies.size())
                                        : plan.key};
}

std::vector<MixerTensor> tensors_of(const RecurrentPlan& plan, int64_t hidden) {
  const int64_t heads = plan.heads;
  // For the writing heads, each of which serves a group of query heads if there are fewer.
  const auto written = [&](const char* name, Role role, int64_t channels, int64_t in) {
    MixerTensor tensor = head_rows(name, role, plan.memory_heads(), channels, in);
    return plan.key_heads > 0 ? grouped(tensor) : tensor;
  };
  std::vector<MixerTensor> all;
  if (plan.convolution > 0)
    all.push_back(
        {.name = "mixer.convolution", .role = Role::kConvolution, .out = hidden, .in = plan.convolution});
  all.push_back(head_rows("mixer.query", Role::kQuery, heads, plan.key, hidden));
  if (plan.makes_keys()) all.push_back(below(written("mixer.key", Role::kKey, plan.key, hidden)));
  if (direct_forget(plan)) all.push_back(below(written("mixer.forget", Role::kForget, plan.key, hidden)));
  all.push_back(below(written("mixer.value", Role::kValue, plan.value, hidden)));
  for (MixerTensor& tensor : all) tensor.own_bias = plan.product_bias && tensor.role != Role::kConvolution;
  if (direct_gate(plan))
    all.push_back(below(head_rows("mixer.gate", Role::kGate, heads, plan.value, hidden)));
  if (plan.decay == Decay::kGate && plan.decay_rank > 0) {
    all.push_back(low_rows("mixer.forget_down", Role::kForget, plan.decay_rank, hidden));
    MixerTensor up = written("mixer.forget_up", Role::kForget, plan.key, plan.decay_rank);
    up.own_bias = true;
    all.push_back(up);
  }
  if (plan.gated && plan.gate_rank > 0) {
    all.push_back(low_rows("mixer.gate_down", Role::kGate, plan.gate_rank, hidden));
    all.push_back(head_rows("mixer.gate_up", Role::kGate, heads, plan.value, plan.gate_rank));
  }
  if (plan.gated && plan.gate_rank == 0 && plan.gate_bias) {
    all.push_back(head_rows("mixer.gate", Role::kGate, heads, plan.value, hidden));
    all.back().own_bias = true;
  }
  for (MixerTensor& tensor : all) {
    if (tensor.name == "mixer.query" || tensor.name == "mixer.forget")
      tensor.xavier_gain = plan.steering_gain;
  }
  if (plan.self_term) {
    MixerTensor self = head_vector("mixer.self", Role::kCoefficient, heads, plan.key);
    self.fill = Fill::kZeros;
    all.push_back(self);
  }
  if (plan.norm != RecurrentPlan::Norm::kNone && plan.norm_weight) {
    const bool by_head = plan.norm != RecurrentPlan::Norm::kAll;
    all.push_back(by_head ? MixerTensor{.name = "mixer.norm", .role = Role::kNorm, .out = plan.value}
                          : head_vector("mixer.norm", Role::kNorm, heads, plan.value));
  }
  all.push_back(head_columns("mixer.output", Role::kOutput, hidden, heads, plan.value));
  return all;
}

std::vector<MixerStateTensor> state_of(const RecurrentPlan& plan, int64_t hidden) {
  std::vector<MixerStateTensor> all = state_of(operators_of(plan).recurrence);
  if (plan.decay == Decay::kCumulative) {
    all.push_back({.name = "log_sums", .shape = {plan.heads, plan.key}, .wide = true});
    all.push_back(
        // 1 where log_sums exists: a cleared sequence has none
        {.name = "begun", .shape = {plan.heads, plan.key}, .wide = true});
  }
  if (plan.convolution > 1)
    all.push_back({.name = "inputs", .shape = {plan.convolution - 1, hidden}, .cut = -1});
  return all;
}

// In the order of the forward pass: [convolution], products, [low ranks], features, [cumulative softmax],
// recurrence, norm, gate, output.
BlockMemory memory_of(const RecurrentPlan& plan, int64_t hidden, const BlockSizes& size) {
  const auto heads = static_cast<double>(plan.heads);
  const double keys = size.channels(plan.heads * plan.key), values = size.channels(plan.heads * plan.value);
  const double turned = plan.turn == Turn::kCosine ? 2 * keys : keys,
               product = size.channels(product_channels(plan));
  const double wide = size.wide / size.element, statistics = size.tokens * size.wide;
  // With fewer writing heads: their values, and the copies of them that the recurrence reads.
  const double written_share = static_cast<double>(plan.memory_heads()) / heads;
  const double copies = plan.key_heads > 0 ? (plan.makes_keys() ? 2 : 1) * keys + values : 0;
  const bool turns = plan.turn != Turn::kNone, cumulative = plan.decay == Decay::kCumulative,
             all = plan.norm == RecurrentPlan::Norm::kAll;
  const bool new_q = turns || plan.query_map != RecurrentPlan::Map::kNone,
             new_k = plan.makes_keys() && (turns || plan.key_map != RecurrentPlan::Map::kNone);
  double features = (new_q ? turned : 0) + (new_k ? turned * written_share : 0) +
                    (plan.value_map != RecurrentPlan::Map::kNone ? values * written_share : 0) + copies;
  // The operands of a quotient exist in the wide precision, before and after the rotation, with the sums and
  // the divisors.
  if (plan.denominator)
    features = wide * (2 * turned + size.channels(plan.heads * (2 * plan.state_values()))) +
               (wide > 1 ? 2 * wide * keys : 0);
  const double decays = cumulative                    ? keys + (1 + (turns ? 2 : 0)) * wide * keys
                        : plan.decay == Decay::kWhole ? keys
                                                      : 0;
  const double low = (plan.decay_rank > 0 ? keys * written_share + size.channels(plan.decay_rank) : 0) +
                     (plan.gate_rank > 0             ? values + size.channels(plan.gate_rank)
                      : plan.gated && plan.gate_bias ? values
                                                     : 0);
  // The gate is a product of its own.
  const bool apart = plan.gated && !(all && plan.gate_map == RecurrentPlan::Map::kSigmoid);
  const double normed = (plan.norm != RecurrentPlan::Norm::kNone ? values : 0) + (apart ? values : 0);
  const double learned = plan.learned_turn ? (2 * wide + 8 / size.element) * keys : 0;
  const double self = plan.self_term ? (3 * wide + 1) * keys + 3 * values : 0;
  const double convolved = plan.convolution > 0 ? size.channels(hidden) : 0;
  const double ends =
      size.documents * heads * static_cast<double>(plan.state_keys() * plan.state_values()) * size.wide;
  const double of_norm = plan.norm == RecurrentPlan::Norm::kNone ? 0 : all ? statistics : statistics * heads;

  const double gates = plan.gated ? values : 0;
  const double sums = plan.norm_weight ? size.norm_sums(plan.heads * plan.value) : 0;
  const double gradients = (plan.denominator ? wide : 1) * ((plan.makes_keys() ? 2 : 1) * turned + values) +
                           (plan.decay == Decay::kGate ? keys : 0) + (cumulative ? wide * turned : 0);
  const bool gate_apart = plan.gated && (plan.gate_rank > 0 || plan.gate_bias);
  // Gradients of the product, of its parts and together; o is gone.
  const double joined = 2 * product + (gate_apart ? values : 0) - values;
  // The gate: d y, d n, d gate, with y gone; the norm: d n, d o, d gate, with n gone too. The recurrence,
  // with o and all these gone: d o, the gate's and its own. Then those of the product.
  const double norm_phase =
      std::max(apart ? 2 * values : values, gates + values + sums - (apart ? values : 0));
  return {.kept = product + low + features + decays + values + normed + learned + self + convolved + of_norm +
                  size.states,
          .backward = size.hidden + std::max({norm_phase, gates + gradients + ends - normed,
                                              joined - normed - features - decays}),
          .cheap = features + normed + convolved,
          .again = size.hidden +
                   std::max({norm_phase + normed, gates + gradients + ends + features, joined - decays}) +
                   convolved,
          .evaluation = product + low + features + decays + 2 * values + ends + 3 * size.hidden};
}

}  // namespace longhaul::recipe
