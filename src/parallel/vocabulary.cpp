#include "parallel/vocabulary.h"

#include "kernels/differentiable.h"
#include "kernels/linear_cross_entropy/raw.h"

namespace longhaul::parallel {
namespace {

using comm::Reduction;

Tensor reduced(comm::Communicator& group, const Tensor& x, Reduction reduction, const char* name) {
  const Tensor result = x.clone();
  group.all_reduce(result, reduction, {.name = name}).wait();
  return result;
}

}  // namespace

Tensor vocabulary_loss(comm::Communicator& group, const Tensor& hidden, const model::VocabularyShare& head, const Tensor& labels) {
  const Tensor& weight = head.weights.weight;
  const kernels::GradientSink& sink = head.weights.sinks.weight;
  return kernels::differentiable("vocabulary_loss", {hidden, weight}, [&]() -> kernels::Recorded {
    // By arithmetic, which meta tensors know as well.
    const Tensor row = labels.sub(head.first_row), here = row.ge(0).bitwise_and(row.lt(weight.size(0))).bitwise_and(labels.ge(0));
    const Tensor own = row.add(1).mul(here).sub(1);
    const kernels::TokenLogits of_rank =
        kernels::token_logits({.hidden_td = hidden, .weight_vd = weight, .labels_t = own, .kept = head.weights.kept});
    const Tensor largest = reduced(group, of_rank.logsumexp_t, Reduction::kMax, "largest log-sum-exps");
    const Tensor sum = reduced(group, of_rank.logsumexp_t.sub(largest).exp(), Reduction::kSum, "sums of exponentials");
    const Tensor logsumexp = largest + sum.log(), label = reduced(group, of_rank.label_t, Reduction::kSum, "logits of labels");
    const Tensor labelled = labels.ge(0).to(logsumexp.scalar_type());
    return {.results = {logsumexp.sub(label).mul(labelled).sum()},
            .saved = {hidden, weight, own, logsumexp, labelled},
            .backward =
                [sink, kept = head.weights.kept](const kernels::BackwardCall& call) {
                  const kernels::TokenLogitsInputs again{
                      .hidden_td = call.saved[0], .weight_vd = call.saved[1], .labels_t = call.saved[2], .kept = kept};
                  const Tensor d_loss = call.saved[4].mul(call.gradients[0]), d_hidden = at::empty_like(call.saved[0]);
                  const kernels::TokenLogits of{d_loss, d_loss.neg()};
                  kernels::token_logits_backward_to_sink(again, call.saved[3], of, d_hidden, sink);
                  return std::vector<Tensor>{d_hidden, Tensor()};
                },
            .sinks = {sink}};
  })[0];
}

}  // namespace longhaul::parallel
