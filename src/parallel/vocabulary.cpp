#include "parallel/vocabulary.h"

#include "kernels/differentiable.h"

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
    const ScalarType wide = hidden.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const Tensor z = at::mm(hidden.to(wide), weight.to(wide).t());  // [tokens, rows of this rank]
    const Tensor largest = reduced(group, z.amax(1), Reduction::kMax, "largest logits");
    const Tensor sum = reduced(group, z.sub(largest.unsqueeze(1)).exp().sum(1), Reduction::kSum, "sums of exponentials");
    const Tensor logsumexp = largest + sum.log();

    const Tensor row = labels.sub(head.first_row), here = row.ge(0).logical_and(row.lt(z.size(1))).logical_and(labels.ge(0));
    const Tensor column = row.clamp(0, z.size(1) - 1).unsqueeze(1), one = here.to(wide);
    const Tensor label = reduced(group, z.gather(1, column).squeeze(1).mul(one), Reduction::kSum, "logits of labels");
    const Tensor labelled = labels.ge(0).to(wide);

    // ∂ loss / ∂ z = softmax − one at the label, for tokens with a label.
    const Tensor dz = z.sub(logsumexp.unsqueeze(1)).exp().scatter_add(1, column, one.neg().unsqueeze(1)).mul(labelled.unsqueeze(1));
    return {.results = {logsumexp.sub(label).mul(labelled).sum()},
            .saved = {hidden, weight},
            .backward =
                [dz, sink](const kernels::BackwardCall& call) {
                  const Tensor scaled = dz.mul(call.gradients[0]);
                  sink.add([scaled, hidden = call.saved[0]](const Tensor& buffer) {
                    Tensor(buffer).addmm_(scaled.t().to(buffer.scalar_type()), hidden.to(buffer.scalar_type()));
                  });
                  const Tensor d_hidden = at::mm(scaled, call.saved[1].to(scaled.scalar_type()));
                  return std::vector<Tensor>{d_hidden.to(call.saved[0].scalar_type()), Tensor()};
                },
            .sinks = {sink}};
  })[0];
}

}  // namespace longhaul::parallel
