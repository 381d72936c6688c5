// LibTorch's products on the logits of options.chunk tokens at a time. Takes every dtype and device.
#include "kernels/linear/op.h"
#include "kernels/linear_cross_entropy/problem.h"

namespace longhaul::kernels {
namespace {

struct ChunkLoss {
  Tensor each_t;       // loss of each token
  Tensor d_logits_tv;  // where asked for
};

ChunkLoss chunk_loss(const Tensor& hidden, const Tensor& wide_weight, const Tensor& labels,
                     const CrossEntropyProblem& problem, bool want_gradient) {
  const LinearCrossEntropyOptions& options = problem.options;
  Tensor logits = at::mm(hidden.to(wide_weight.scalar_type()), wide_weight.t());
  const Tensor index = (problem.all_labelled ? labels : labels.clamp_min(0)).unsqueeze(1);
  const Tensor unlabelled = problem.all_labelled ? Tensor() : labels.lt(0);
  const Tensor lse = logits.logsumexp(1);
  ChunkLoss loss{lse.sub(logits.gather(1, index).squeeze(1)).add_(lse.square(), options.z_loss), Tensor()};
  if (!problem.all_labelled) loss.each_t.masked_fill_(unlabelled, 0);
  if (!want_gradient) return loss;
  // u (p (1 + 2 ζ L) − one_hot(label))
  logits.sub_(lse.unsqueeze(1)).exp_();
  logits.mul_(lse.mul(2 * options.z_loss).add_(1).unsqueeze(1));
  logits.scatter_add_(1, index, at::full_like(index, -1, logits.options()));
  if (options.upstream != 1) logits.mul_(options.upstream);
  if (!problem.all_labelled) logits.masked_fill_(unlabelled.unsqueeze(1), 0);
  loss.d_logits_tv = logits;
  return loss;
}

}  // namespace

Tensor cross_entropy_aten(const CrossEntropyProblem& problem, const CrossEntropyGradients& gradients) {
  const Tensor wide_weight = problem.weight_vd.to(problem.sum_type());
  Tensor each_t = at::empty({problem.tokens()}, wide_weight.options());
  for (int64_t begin = 0; begin < problem.tokens(); begin += problem.options.chunk) {
    const int64_t rows = std::min(problem.options.chunk, problem.tokens() - begin);
    const Tensor hidden = problem.hidden_td.narrow(0, begin, rows);
    const ChunkLoss loss =
        chunk_loss(hidden, wide_weight, problem.labels_t.narrow(0, begin, rows), problem, gradients.wanted());
    each_t.narrow(0, begin, rows).copy_(loss.each_t);
    if (!gradients.wanted()) continue;
    const Tensor d_logits = loss.d_logits_tv.to(hidden.scalar_type());
    if (gradients.hidden_td.defined()) {
      Tensor target = gradients.hidden_td.narrow(0, begin, rows);
      at::mm_out(target, d_logits, problem.weight_vd);
    }
    if (gradients.sink_vd.defined()) add_weight_gradient(gradients.sink_vd, d_logits, hidden);
  }
  return each_t;
}

void token_logits_aten(const CrossEntropyProblem& problem, const TokenLogits& out) {
  const Tensor wide_weight = problem.weight_vd.to(problem.sum_type());
  for (int64_t begin = 0; begin < problem.tokens(); begin += problem.options.chunk) {
    const int64_t rows = std::min(problem.options.chunk, problem.tokens() - begin);
    Tensor logits =
        at::mm(problem.hidden_td.narrow(0, begin, rows).to(wide_weight.scalar_type()), wide_weight.t());
    if (problem.logit_scale != 1) logits.mul_(problem.logit_scale);
    const Tensor labels = problem.labels_t.narrow(0, begin, rows), lse = logits.logsumexp(1);
    out.logsumexp_t.narrow(0, begin, rows).copy_(lse);
    out.label_t.narrow(0, begin, rows)
        .copy_(logits.gather(1, labels.clamp_min(0).unsqueeze(1)).squeeze(1).masked_fill_(labels.lt(0), 0));
    if (!out.entropy_t.defined()) continue;
    logits.sub_(lse.unsqueeze(1));
    out.entropy_t.narrow(0, begin, rows).copy_(logits.exp().mul_(logits).sum(1).neg_());
  }
}

void token_logits_backward_aten(const CrossEntropyProblem& problem, const TokenLogitsGradient& of,
                                const CrossEntropyGradients& into) {
  const Tensor wide_weight = problem.weight_vd.to(problem.sum_type());
  for (int64_t begin = 0; begin < problem.tokens(); begin += problem.options.chunk) {
    const int64_t rows = std::min(problem.options.chunk, problem.tokens() - begin);
    const auto column = [&](const Tensor& x_t) { return x_t.narrow(0, begin, rows).unsqueeze(1); };
    const Tensor hidden = problem.hidden_td.narrow(0, begin, rows), labels = column(problem.labels_t);
    Tensor dz = at::mm(hidden.to(wide_weight.scalar_type()), wide_weight.t());
    if (problem.logit_scale != 1) dz.mul_(problem.logit_scale);
    dz.sub_(column(of.logsumexp_t));
    if (of.entropy_t.defined()) {
      const Tensor log_p = dz, d_entropy = column(of.upstream.entropy_t);
      dz = log_p.exp();
      dz.mul_(log_p.add_(column(of.entropy_t)).mul_(d_entropy).neg_().add_(column(of.upstream.logsumexp_t)));
    } else {
      dz.exp_().mul_(column(of.upstream.logsumexp_t));
    }
    dz.scatter_add_(1, labels.clamp_min(0), column(of.upstream.label_t).masked_fill(labels.lt(0), 0));
    if (problem.logit_scale != 1) dz.mul_(problem.logit_scale);
    dz = dz.to(hidden.scalar_type());
    if (into.hidden_td.defined()) {
      Tensor target = into.hidden_td.narrow(0, begin, rows);
      at::mm_out(target, dz, problem.weight_vd);
    }
    if (into.sink_vd.defined()) add_weight_gradient(into.sink_vd, dz, hidden);
  }
}

}  // namespace longhaul::kernels
