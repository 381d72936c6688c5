// What a Decoder's last stage makes of normed hidden states: logits, losses and log-probabilities.
#include <algorithm>

#include "kernels/group_linear/op.h"
#include "kernels/linear/op.h"
#include "kernels/linear_cross_entropy/log_probabilities.h"
#include "kernels/linear_cross_entropy/op.h"
#include "model/context.h"
#include "model/decoder.h"

namespace longhaul::model {

// muP divides logits by how much wider the model is than its base.
Tensor Decoder::head_input(const Tensor& hidden) const {
  const double factor = config_.width_factor();
  return factor == 1 ? hidden : hidden.mul(1 / factor);
}

Tensor Decoder::logits(const Tensor& hidden) const {
  if (head_->groups) return kernels::group_linear_wide(head_input(hidden), *head_->groups);
  return kernels::linear_wide(head_input(hidden), head_->value, head_->kept());
}

Tensor Decoder::summed_loss(Context& context, const Tensor& hidden, const Tensor& labels,
                            const Tensor& weights, const layout::SequenceView& view) {
  if (!weights.defined()) return context.ops.loss(head_input(hidden), share_of(*head_), labels, view);
  const auto each = context.ops.log_probabilities(head_input(hidden), share_of(*head_), labels, view, {});
  return each.log_probability_t.mul(weights.to(each.log_probability_t.scalar_type())).sum().neg();
}

Tensor Decoder::loss(Context& context, const Tensor& hidden, const Tensor& labels,
                     const layout::SequenceView& view, const Tensor& weights) {
  const Tensor loss = summed_loss(context, hidden, labels, weights, view);
  if (context.inspect) context.inspect("loss", loss);
  return loss;
}

kernels::TokenLogProbabilities Decoder::log_probabilities(Context& context, const Tensor& hidden,
                                                          const Tensor& labels,
                                                          const kernels::LogProbabilityOptions& options,
                                                          const layout::SequenceView& view) {
  const auto each =
      context.ops.log_probabilities(head_input(hidden), share_of(*head_), labels, view, options);
  if (context.inspect) context.inspect("loss", each.log_probability_t);
  return each;
}

Tensor Decoder::loss_each(const Tensor& hidden, const Tensor& labels) const {
  if (head_->groups) {  // some rows of logits at a time
    constexpr int64_t kLogitsAtOnce = 1 << 22;
    std::vector<Tensor> losses;
    const int64_t rows = std::max<int64_t>(1, kLogitsAtOnce / config_.vocabulary);
    for (int64_t begin = 0; begin < labels.size(0); begin += rows) {
      const int64_t count = std::min(rows, labels.size(0) - begin);
      losses.push_back(at::cross_entropy_loss(logits(hidden.narrow(0, begin, count)),
                                              labels.narrow(0, begin, count), {}, at::Reduction::None,
                                              /*ignore_index=*/-1));
    }
    return losses.empty() ? at::zeros({0}, hidden.options().dtype(at::kFloat)) : at::cat(losses);
  }
  return kernels::linear_cross_entropy_each(head_input(hidden), head_->value, labels, {}, head_->kept());
}

}  // namespace longhaul::model
