#include "model/mixers/lcsm.h"

#include <cmath>

#include "kernels/linear_recurrence/op.h"
#include "model/mixers/lightning_attention.h"

namespace longhaul::model {
namespace {

using recipe::LcsmActivation;
using recipe::LcsmSource;
using enum recipe::LcsmOscillation;

std::vector<std::string> outputs_of_channels(const recipe::LcsmOptions& options) {
  std::vector<std::string> outputs{"input"};
  if (options.value_logits() && options.oscillation != kStateSpace) outputs.emplace_back("forget_value");
  return outputs;
}

std::vector<std::string> outputs_of_rows(const recipe::LcsmOptions& options) {
  std::vector<std::string> outputs;
  if (options.expand == LcsmSource::kInput) outputs.emplace_back("expand");
  if (options.shrink == LcsmSource::kInput) outputs.emplace_back("shrink");
  if (options.key_logits()) outputs.emplace_back("forget_key");
  if (options.oscillation == kStateSpace) outputs.emplace_back("step_down");
  return outputs;
}

}  // namespace

Lcsm::Lcsm(const recipe::ModelConfig& config, const BlockPlace& place, ParameterSet& parameters)
    : SequenceMixer(place.name),
      options_(config.lcsm),
      all_channels_(config.heads * config.head_dim),
      of_channels_(parameters, name(), "of_channels", outputs_of_channels(config.lcsm), config.bias),
      channels_(of_channels_.rows(0)),
      first_channel_(of_channels_.first_row(0)),
      expand_(parameter_of(parameters, "expand", options_.expand == LcsmSource::kFixed)),
      shrink_(parameter_of(parameters, "shrink", options_.shrink == LcsmSource::kFixed)),
      oscillation_(parameter_of(parameters, "oscillation", options_.parameter(all_channels_).out > 0)),
      norm_(parameter_of(parameters, "norm", true)),
      shift_(parameter_of(parameters, "norm_shift", true)),
      output_(parameters, name(), "output", {"output"}, config.bias) {
  if (const auto outputs = outputs_of_rows(options_); !outputs.empty())
    of_rows_.emplace(parameters, name(), "of_rows", outputs, config.bias);
  if (options_.oscillation == kStateSpace)
    steps_.emplace(parameters, name(), "forget_value", std::vector<std::string>{"forget_value"}, config.bias);
}

Parameter* Lcsm::parameter_of(ParameterSet& parameters, const char* part, bool wanted) const {
  const std::string own = name() + "." + part + ".weight";
  return wanted ? &parameters.add_stacked(own, {own}) : nullptr;
}

Tensor Lcsm::activated(const Tensor& x) const {
  switch (options_.activation) {
    case LcsmActivation::kRelu:
      return x.relu();
    case LcsmActivation::kSigmoid:
      return x.sigmoid();
    case LcsmActivation::kOnePlusElu:
      return at::elu(x).add(1);
    case LcsmActivation::kSilu:
      return at::silu(x);
    case LcsmActivation::kElu:
      return at::elu(x);
    case LcsmActivation::kSquaredRelu:
      return x.relu().square();
    case LcsmActivation::kSquare:
      return x.square();
    default:
      return x;
  }
}

// Decoding: in fp64, because LibTorch rounds an element of a function by where it stands among others, and a
// sequence should not depend on those beside it.
Lcsm::Made Lcsm::made_of(Context& context, BlockInput& input, const layout::SequenceView& view,
                         bool decoding) const {
  const auto products = [&](const Tensor& rows) {
    std::vector<Tensor> made{of_channels_.forward(rows)};
    if (of_rows_) made.push_back(of_rows_->forward(rows));
    if (steps_) {
      const int64_t all = made[1].size(1);
      made.push_back(steps_->forward(made[1].narrow(1, all - options_.rank, options_.rank).contiguous()));
    }
    return made;
  };
  const std::vector<Tensor> made = context.ops.of_gathered(input, products, view);
  const ScalarType type = decoding ? at::kDouble : context.precision.reduce;
  Made all{.input_td = made[0].narrow(1, 0, channels_)};
  if (steps_) all.value_td = at::softplus(made[2].to(type));
  if (options_.value_logits() && !steps_) all.value_td = made[0].narrow(1, channels_, channels_).to(type);
  int64_t next = 0;
  for (const auto& [wanted, part] :
       {std::pair{expand_ == nullptr, &Made::expand_tk}, std::pair{shrink_ == nullptr, &Made::shrink_tk},
        std::pair{options_.key_logits(), &Made::key_tk}}) {
    if (!wanted) continue;
    all.*part = made[1].narrow(1, next, options_.state).to(type);
    next += options_.state;
  }
  return all;
}

Tensor Lcsm::own_slopes() const {
  const Tensor all = at::tensor(geometric_slopes(all_channels_), at::kDouble).to(norm_->value.options());
  return all.narrow(0, first_channel_, channels_);
}

Tensor Lcsm::log_gate(const Tensor& z, const Tensor& slopes) const {
  if (options_.tau > 0) return at::log_sigmoid(z).div(options_.tau);
  return z.sigmoid().mul(slopes.to(z.options()).neg());
}

// [T, 1, K] by rows, [T, D, K] or [T, D] else; of fixed ones [1, …].
Tensor Lcsm::log_oscillation(const Made& made) const {
  const double tau = options_.tau;
  const auto p = [&] { return oscillation_->use(); };
  const auto of_rows = [&] {
    return at::tensor(geometric_slopes(options_.state), at::kDouble).to(norm_->value.options());
  };
  const auto key = [&] { return made.key_tk.unsqueeze(1); };      // [T, 1, K]
  const auto value = [&] { return made.value_td.unsqueeze(2); };  // [T, D, 1]
  const auto gate = [&](const Tensor& z) { return at::log_sigmoid(z).div(tau); };
  switch (options_.oscillation) {
    case kMatrix: {
      if (tau > 0) return gate(p()).t().unsqueeze(0);
      const Tensor all = at::tensor(geometric_slopes(options_.state * all_channels_), at::kDouble)
                             .to(norm_->value.options());
      return all.neg()
          .view({options_.state, all_channels_})
          .narrow(1, first_channel_, channels_)
          .t()
          .unsqueeze(0);
    }
    case kInputBoth:
      return log_gate(made.key_tk, of_rows()).unsqueeze(1) +
             log_gate(made.value_td, own_slopes()).unsqueeze(2);
    case kInputValue:
      return log_gate(made.value_td, own_slopes());
    case kInputKey:
      return log_gate(made.key_tk, of_rows()).unsqueeze(1);
    case kKey:
      return (tau > 0 ? gate(p()) : of_rows().neg()).view({1, 1, options_.state});
    case kValue:
      return (tau > 0 ? gate(p()) : own_slopes().neg()).unsqueeze(0);
    case kInputKeyMatrix:
      return gate(key() * p().t());
    case kInputValueMatrix:
      return gate(value() * p().t());
    case kInputValueKey:
      return gate(value() * p());
    case kInputKeyValue:
      return gate(key() * p().unsqueeze(1));
    case kStateSpace:
      return -(value() * p().t().exp());
    default:
      return {};
  }
}

// 1 − λ: e^f of each token over the sum of them so far, which is a recurrence that forgets nothing. f within
// ±10 keeps it in range.
Tensor Lcsm::shares_so_far(Context& context, const Tensor& logits, const layout::SequenceView& view,
                           const MixerRows* state) const {
  const ScalarType wide = context.precision.reduce;
  const Tensor weights = logits.clamp(-10, 10).exp(),
               one = at::ones({logits.size(0), 1, 1}, logits.options().dtype(wide));
  kernels::RecurrenceStates sums;
  if (state != nullptr) sums = {state->state.tensor("sums"), state->rows};
  const Tensor so_far =
      context.ops.linear_recurrence(one, one, weights.to(wide).unsqueeze(1), Tensor(), sums, view, {});
  return weights / so_far.squeeze(1).to(weights.scalar_type());
}

Summand Lcsm::summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                      const MixerRows* state) {
  const Made made = made_of(context, input, view, state != nullptr);
  const int64_t tokens = made.input_td.size(0), columns = options_.by_rows() ? 1 : channels_;
  // [T, heads, K] of [T, K], or of a parameter [K, D].
  const auto rows = [&](const Tensor& of_input, Parameter* fixed) {
    const Tensor each =
        fixed == nullptr ? activated(of_input).unsqueeze(1) : activated(fixed->use()).t().unsqueeze(0);
    return each.expand({tokens, columns, each.size(2)});
  };
  Tensor e = rows(made.expand_tk, expand_), s = rows(made.shrink_tk, shrink_), values = made.input_td,
         log_decay = log_oscillation(made);
  if (options_.oscillation == kStateSpace) values = values.to(made.value_td.scalar_type()) * made.value_td;
  if (options_.oscillation == kRotation) {
    const Tensor positions = at::tensor(view.positions_of_axis(0), at::kLong).to(e.device()).to(at::kDouble);
    const Tensor turns = at::pow(
        at::Scalar(10000.0),
        at::arange(options_.state, positions.options()).mul(-2.0 / static_cast<double>(all_channels_)));
    const Tensor angle = at::outer(positions, turns).unsqueeze(1), cos = angle.cos().to(e.scalar_type()),
                 sin = angle.sin().to(e.scalar_type());
    e = at::cat({e * cos, e * sin}, 2);
    s = at::cat({s * cos, s * sin}, 2);
  }
  if (options_.oscillation == kCumulative) {
    const Tensor share = shares_so_far(context, made.key_tk, view, state).unsqueeze(1);
    e = e * share;
    // A document's first token has all of the sum: nothing is there yet that could decay.
    log_decay = share.clamp_max(1 - 0x1p-24).neg().log1p();
  }
  if (log_decay.defined()) {
    log_decay = log_decay.dim() == 2 ? log_decay.expand({tokens, columns})
                                     : log_decay.expand({tokens, columns, log_decay.size(2)});
    log_decay = log_decay.to(context.precision.reduce).contiguous();
  }
  const ScalarType type = context.precision.compute;
  const Tensor v = values.to(type).view({tokens, columns, channels_ / columns});
  const Tensor y = context.ops.linear_recurrence(s.to(type).contiguous(), e.to(type).contiguous(), v,
                                                 log_decay, recurrence_of(state), view, {});
  const Tensor normed =
      context.ops.layer_norm(y.reshape({tokens, channels_}), norm_->use(), options_.norm_eps);
  return output_.summand(context, normed + shift_->use().to(normed.scalar_type()));
}

}  // namespace longhaul::model
