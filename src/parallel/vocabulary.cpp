#include "parallel/vocabulary.h"

#include "kernels/linear_cross_entropy/log_probabilities.h"

namespace longhaul::parallel {
namespace {

using comm::Reduction;

Tensor reduced(comm::Communicator& group, const Tensor& x, Reduction reduction, const char* name) {
  const Tensor result = x.clone();
  group.all_reduce(result, reduction, {.name = name}).wait();
  return result;
}

// The terms of all rows from those of each rank's: L from the L of the ranks, and with w = e^{L_rank − L} the
// entropy Σ w (H_rank − log w).
kernels::TokenLogits joined(comm::Communicator& group, const kernels::TokenLogits& of_rank) {
  const Tensor largest = reduced(group, of_rank.logsumexp_t, Reduction::kMax, "largest log-sum-exps");
  const Tensor sum =
      reduced(group, of_rank.logsumexp_t.sub(largest).exp(), Reduction::kSum, "sums of exponentials");
  kernels::TokenLogits all{largest + sum.log(),
                           reduced(group, of_rank.label_t, Reduction::kSum, "logits of labels")};
  if (!of_rank.entropy_t.defined()) return all;
  const Tensor log_w = of_rank.logsumexp_t.sub(all.logsumexp_t);
  all.entropy_t = reduced(group, of_rank.entropy_t.sub(log_w).mul(log_w.exp()), Reduction::kSum, "entropies");
  return all;
}

kernels::VocabularyRows rows_of(comm::Communicator& group, const model::VocabularyShare& head) {
  return {head.first_row, head.vocabulary,
          [&group](const kernels::TokenLogits& of_rank) { return joined(group, of_rank); }};
}

}  // namespace

Tensor vocabulary_loss(comm::Communicator& group, const Tensor& hidden, const model::VocabularyShare& head,
                       const Tensor& labels) {
  const auto each = kernels::log_probabilities_of_all(
      hidden, {head.weights.weight, head.weights.sinks.weight, head.weights.kept}, labels, {},
      rows_of(group, head));
  return each.log_probability_t.sum().neg();
}

kernels::TokenLogProbabilities vocabulary_log_probabilities(comm::Communicator& group, const Tensor& hidden,
                                                            const model::VocabularyShare& head,
                                                            const Tensor& labels,
                                                            const kernels::LogProbabilityOptions& options) {
  return kernels::token_log_probabilities(hidden,
                                          {head.weights.weight, head.weights.sinks.weight, head.weights.kept},
                                          labels, options, rows_of(group, head));
}

}  // namespace longhaul::parallel
