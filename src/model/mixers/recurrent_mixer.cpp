#include "model/mixers/recurrent_mixer.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/error.h"
#include "kernels/feature_maps/op.h"
#include "kernels/linear_recurrence/op.h"
#include "kernels/norm/op.h"
#include "kernels/scan/op.h"
#include "kernels/short_convolution/op.h"
#include "model/shared_parameter.h"
#include "tensor/to_tensor.h"

namespace longhaul::model {
namespace {

using Plan = recipe::RecurrentPlan;

kernels::FeatureMap map_of(Plan::Map map) {
  switch (map) {
    case Plan::Map::kNone:
      return kernels::FeatureMap::kNone;
    case Plan::Map::kSilu:
      return kernels::FeatureMap::kSilu;
    case Plan::Map::kRelu:
      return kernels::FeatureMap::kRelu;
    case Plan::Map::kSigmoid:
      return kernels::FeatureMap::kSigmoid;
  }
  return {};
}

kernels::Turn turn_of(Plan::Turn turn) {
  return turn == Plan::Turn::kCosine   ? kernels::Turn::kCosine
         : turn == Plan::Turn::kRotary ? kernels::Turn::kRotary
                                       : kernels::Turn::kNone;
}

bool direct_forget(const Plan& plan) { return plan.decay == Plan::Decay::kGate && plan.decay_rank == 0; }
// made with the others
bool direct_gate(const Plan& plan) { return plan.gated && plan.gate_rank == 0 && !plan.gate_bias; }

std::vector<std::string> product_names(const Plan& plan) {
  std::vector<std::string> names{"query"};
  if (plan.makes_keys()) names.emplace_back("key");
  if (direct_forget(plan)) names.emplace_back("forget");
  names.emplace_back("value");
  if (direct_gate(plan)) names.emplace_back("gate");
  return names;
}

void require_within(std::span<const int64_t> positions, int64_t longest) {
  const auto beyond = std::ranges::find_if(positions, [&](int64_t position) { return position >= longest; });
  if (beyond == positions.end()) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "a sequence is longer than a layer of this model can weigh",
               .expected = fmt::format("at most {} tokens", longest),
               .found = fmt::format("position {}", *beyond),
               .where = "model.cosformer.longest",
               .hint = "shorten the input; a model with another model.cosformer.longest is another model"});
}

// As it is where there is nothing to do: no copy.
Tensor featured(const Tensor& x, int64_t heads, Plan::Map map, Plan::Turn turn,
                const kernels::TurnTable& table) {
  if (map == Plan::Map::kNone && turn == Plan::Turn::kNone)
    return x.view({x.size(0), heads, x.size(1) / heads});
  return kernels::features(x, heads, map_of(map), turn_of(turn), table);
}

// Of every head that writes a copy for each query head that reads it: [tokens, own, c] → [tokens, heads, c].
Tensor for_each_query(const Tensor& x, int64_t heads) {
  const int64_t own = x.size(1);
  return own == heads ? x
                      : x.unsqueeze(2)
                            .expand({x.size(0), own, heads / own, x.size(2)})
                            .reshape({x.size(0), heads, x.size(2)});
}

}  // namespace

RecurrentMixer::RecurrentMixer(const Plan& plan, const recipe::ModelConfig& config, const BlockPlace& place,
                               ParameterSet& parameters, const std::string& shared_frequencies)
    : SequenceMixer(place.name),
      plan_(plan),
      convolution_(plan.convolution > 0 ? &parameters.add_stacked(name() + ".convolution.weight",
                                                                  {name() + ".convolution.weight"})
                                        : nullptr),
      products_(parameters, name(), "products", product_names(plan), config.bias || plan.product_bias),
      output_(parameters, name(), "output", {"output"}, config.bias),
      heads_(products_.rows(0) / plan.key),
      first_head_(products_.first_row(0) / plan.key),
      memory_heads_(std::max<int64_t>(1, heads_ * plan.memory_heads() / plan.heads)) {
  const auto own = [&](const char* tensor) {
    return &parameters.add_stacked(name() + tensor, {name() + tensor});
  };
  const auto low = [&](std::optional<Linear>& down, std::optional<Linear>& up, const std::string& of,
                       bool bias) {
    down.emplace(parameters, name(), of + "_down", std::vector<std::string>{of + "_down"}, config.bias);
    up.emplace(parameters, name(), of + "_up", std::vector<std::string>{of + "_up"}, bias);
  };
  if (plan.decay == Plan::Decay::kGate && plan.decay_rank > 0) low(forget_down_, forget_up_, "forget", true);
  if (plan.gated && plan.gate_rank > 0) low(gate_down_, gate_up_, "gate", config.bias);
  if (plan.gated && plan.gate_rank == 0 && plan.gate_bias)
    gate_up_.emplace(parameters, name(), "gate", std::vector<std::string>{"gate"}, /*bias=*/true);
  if (plan.self_term) self_ = own(".self.weight");
  const bool by_head = plan.norm == Plan::Norm::kHeads || plan.norm == Plan::Norm::kHeadsCentred;
  if (plan.norm_weight && plan.norm != Plan::Norm::kNone) {
    norm_ = own(".norm.weight");
  } else {
    ones_ = at::ones({by_head ? plan.value : heads_ * plan.value}, parameters.wide_options());
  }
  if (!shared_frequencies.empty()) frequencies_ = &shared_parameter(parameters, shared_frequencies);
  if (plan.decay != Plan::Decay::kSlopes) return;
  std::vector<double> log_decay;
  for (int64_t h = 0; h < heads_; ++h)
    log_decay.push_back(-plan.slopes.at(static_cast<size_t>(first_head_ + h)));
  log_decay_h_ = at::tensor(log_decay, at::kDouble).to(parameters.wide_options());
}

RecurrentMixer::Made RecurrentMixer::project(Context& context, BlockInput& input,
                                             const layout::SequenceView& view, const MixerRows* state) const {
  const auto products = [&](const Tensor& rows) {
    return std::vector<Tensor>{
        products_.forward(rows), forget_down_ ? forget_up_->forward(forget_down_->forward(rows)) : Tensor(),
        gate_up_ ? gate_up_->forward(gate_down_ ? gate_down_->forward(rows) : rows) : Tensor()};
  };
  const auto defined_products = [&](const Tensor& rows) {
    std::vector<Tensor> all = products(rows);
    std::erase_if(all, [](const Tensor& each) { return !each.defined(); });
    return all;
  };
  std::vector<Tensor> made;
  if (convolution_ != nullptr) {  // reads other tokens: behind the gathering
    const Tensor rows = context.ops.of_gathered(
        input, [](const Tensor& x) { return std::vector<Tensor>{x}; }, view)[0];
    made = defined_products(context.ops.short_convolution(
        rows, convolution_->use(), {}, convolution_of(state, "inputs"), view, {.silu = true}));
  } else {
    made = context.ops.of_gathered(input, defined_products, view);
  }
  std::vector<int64_t> channels;
  for (const std::string& each : product_names(plan_)) {
    const bool written = each == "key" || each == "forget" || each == "value";
    channels.push_back((written ? memory_heads_ : heads_) *
                       (each == "value" || each == "gate" ? plan_.value : plan_.key));
  }
  const std::vector<Tensor> parts = made[0].split_with_sizes(channels, 1);
  Made result;
  size_t next = 0;
  result.query = parts[next++];
  if (plan_.makes_keys()) result.key = parts[next++];
  if (direct_forget(plan_)) result.forget = parts[next++];
  result.value = parts[next++];
  if (direct_gate(plan_)) result.gate = parts[next++];
  next = 1;
  if (forget_down_) result.forget = made[next++];
  if (gate_up_) result.gate = made[next++];
  return result;
}

kernels::TurnTable RecurrentMixer::turns(Context& context, const layout::SequenceView& view,
                                         const Tensor& like) const {
  if (plan_.turn == Plan::Turn::kNone) return {};
  const auto positions = view.positions_of_axis(0);
  if (plan_.longest > 0) require_within(positions, plan_.longest);
  const ScalarType wide = context.precision.reduce;
  if (!plan_.grid.empty())
    return context.rotary->turns_on_grid(positions, plan_.grid, plan_.key, wide, like.device());
  const bool trains = at::GradMode::is_enabled() && frequencies_ != nullptr && frequencies_->trainable();
  if (frequencies_ != nullptr && (trains || !like.is_cpu())) {  // on a GPU nobody waits to read them
    const Tensor t = to_tensor(positions, like.device()).to(at::kDouble).add(plan_.first_position);
    const Tensor angles = at::outer(t, frequencies_->use().to(at::kDouble));
    return {angles.cos().to(wide), angles.sin().to(wide)};
  }
  std::vector<double> own = plan_.frequencies;
  if (frequencies_ != nullptr) {
    const Tensor values = frequencies_->value.detach().to(at::kDouble).contiguous();
    own.assign(values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel());
  } else if (plan_.turn == Plan::Turn::kCosine) {  // a frequency a channel of all heads
    own.assign(plan_.frequencies.begin() + first_head_ * plan_.key,
               plan_.frequencies.begin() + (first_head_ + heads_) * plan_.key);
  }
  return context.rotary->turns(positions, own, plan_.first_position, wide, like.device());
}

// o_t also gets σ((q_t · (k_t ⊙ w)) v_t), k = 1 − λ of the token itself.
Tensor RecurrentMixer::self_term(const Made& made, const Tensor& q, const Tensor& v, bool decoding) const {
  // Decoding: in fp64, because LibTorch's functions round an element by where its threads cut all rows, and
  // fp64 hides it.
  const ScalarType wide = decoding ? at::kDouble : self_->value.scalar_type();
  const Tensor k = at::log_sigmoid(made.forget.to(wide)).div(plan_.divisor).expm1().neg().view(q.sizes());
  const Tensor weight =
      q.to(wide).mul(k).mul(self_->use().to(wide).view({heads_, plan_.key})).sum(2, /*keepdim=*/true);
  return weight.mul(v.to(wide)).sigmoid().to(v.scalar_type());
}

// A quotient of two sums, of which one may be next to 0: its gradients are differences that nearly cancel,
// over that sum. With sums and operands in a low precision what is left of them is rounding, and another
// order of the same sums gives another model. So both are made in the wide one.
RecurrentMixer::Made RecurrentMixer::for_quotient(const Context& context, const Made& made) {
  const ScalarType wide = context.precision.reduce;
  return {.query = made.query.to(wide),
          .key = made.key.to(wide),
          .value = made.value.to(wide),
          .forget = {},
          .gate = made.gate};
}

Tensor RecurrentMixer::recur(Context& context, const Made& projected, const layout::SequenceView& view,
                             const MixerRows* state) const {
  const Made made = plan_.denominator ? for_quotient(context, projected) : projected;
  const int64_t tokens = made.query.size(0);
  const kernels::TurnTable table = turns(context, view, made.query);
  const Tensor q = featured(made.query, heads_, plan_.query_map, plan_.turn, table);
  Tensor v = for_each_query(featured(made.value, memory_heads_, plan_.value_map, Plan::Turn::kNone, {}),
                            heads_),
         k, log_decay = log_decay_h_;
  kernels::LinearRecurrenceOptions options{.scale = plan_.scale, .tied_keys = plan_.tied_keys};
  if (plan_.decay == Plan::Decay::kWhole) {
    k = featured(context.ops.segment_softmax(made.key, view), heads_, Plan::Map::kNone, plan_.turn, table);
    return context.ops.bidirectional_attention(q, k, v, view);
  }
  if (plan_.decay == Plan::Decay::kCumulative) {
    const kernels::CumulativeSoftmax made_keys =
        context.ops.cumulative_softmax(made.key, scan_of(state, "log_sums", "begun"), view);
    k = featured(made_keys.k_tc, heads_, Plan::Map::kNone, plan_.turn, table);
    log_decay = made_keys.log_decay_tc.view({tokens, heads_, plan_.key});
    // both halves of a channel decay alike
    if (plan_.turn == Plan::Turn::kCosine) log_decay = at::cat({log_decay, log_decay}, 2);
  } else if (plan_.makes_keys()) {
    k = for_each_query(featured(made.key, memory_heads_, plan_.key_map, plan_.turn, table), heads_);
  }
  if (plan_.decay == Plan::Decay::kGate) {
    log_decay = for_each_query(made.forget.view({tokens, memory_heads_, plan_.key}), heads_);
    options.gate = {.kind = kernels::RecurrenceGate::Kind::kLogSigmoid, .divisor = plan_.divisor};
  }
  if (plan_.denominator) v = at::cat({v, at::ones({tokens, heads_, 1}, v.options().requires_grad(false))}, 2);
  Tensor o = context.ops.linear_recurrence(q, k, v, log_decay, recurrence_of(state), view, options);
  if (plan_.denominator) {
    constexpr double kSmallest = 1e-6;
    o = o.narrow(2, 0, plan_.value)
            .div(o.narrow(2, plan_.value, 1).clamp_min(kSmallest))
            .to(context.precision.compute);
  }
  return self_ != nullptr ? o + self_term(made, q, v, state != nullptr) : o;
}

Tensor RecurrentMixer::norm_and_gate(Context& context, const Tensor& o, const Tensor& gate) const {
  const int64_t tokens = o.size(0), channels = heads_ * plan_.value;
  const Tensor weight = norm_ != nullptr ? norm_->use() : ones_.to(o.device());
  Tensor y = o.reshape({tokens, channels});
  switch (plan_.norm) {
    case Plan::Norm::kNone:
      break;
    case Plan::Norm::kAll:
      if (plan_.gated && plan_.gate_map == Plan::Map::kSigmoid)
        return context.ops.rms_norm(y, gate, weight, plan_.norm_eps);
      y = context.ops.rms_norm(y, Tensor(), weight, plan_.norm_eps);
      break;
    case Plan::Norm::kHeads:
      y = kernels::rms_norm(y.view({tokens * heads_, plan_.value}), weight, plan_.norm_eps)
              .view({tokens, channels});
      break;
    case Plan::Norm::kHeadsCentred:
      y = kernels::layer_norm(y.view({tokens * heads_, plan_.value}), weight, Tensor(), plan_.norm_eps)
              .view({tokens, channels});
      break;
  }
  return plan_.gated ? kernels::gated(y, gate, map_of(plan_.gate_map)) : y;
}

Summand RecurrentMixer::summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                                const MixerRows* state) {
  const Made made = project(context, input, view, state);
  return output_.summand(context, norm_and_gate(context, recur(context, made, view, state), made.gate));
}

}  // namespace longhaul::model
