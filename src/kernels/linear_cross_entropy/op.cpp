#include "kernels/linear_cross_entropy/op.h"

#include <torch/csrc/autograd/custom_function.h>

#include "kernels/documents.h"
#include "kernels/linear/op.h"

namespace longhaul::kernels {
namespace {

ScalarType sum_type(const Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

struct ChunkLoss {
  Tensor each_t;      // loss of each token
  Tensor d_logits_tv; // d(sum)/d(logits), where asked for
};

ChunkLoss chunk_loss(const Tensor& hidden, const Tensor& wide_weight, const Tensor& labels, double z_loss, bool want_gradient) {
  Tensor logits = at::mm(hidden.to(wide_weight.scalar_type()), wide_weight.t());
  const Tensor mask = labels.ge(0).to(logits.scalar_type());
  const Tensor index = labels.clamp_min(0).unsqueeze(1);
  const Tensor lse = logits.logsumexp(1);
  ChunkLoss loss{lse.sub(logits.gather(1, index).squeeze(1)).add_(lse.square(), z_loss).mul_(mask), Tensor()};
  if (!want_gradient) return loss;
  // p · (1 + 2 z lse) − one_hot(label), zero rows where there is no label.
  logits.sub_(lse.unsqueeze(1)).exp_();
  logits.mul_(lse.mul(2 * z_loss).add_(1).mul_(mask).unsqueeze(1));
  logits.scatter_add_(1, index, mask.neg().unsqueeze(1));
  loss.d_logits_tv = logits;
  return loss;
}

class LinearCrossEntropyFunction : public torch::autograd::Function<LinearCrossEntropyFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& hidden, const Tensor& weight, const Tensor& labels,
                        const Tensor& sink, const LinearCrossEntropyOptions& options, bool want_gradient) {
    const Tensor wide_weight = weight.to(sum_type(hidden));
    Tensor sum = at::zeros({}, hidden.options().dtype(sum_type(hidden)));
    Tensor d_hidden, d_weight;
    if (want_gradient) {
      d_hidden = at::empty_like(hidden);
      d_weight = at::zeros(weight.sizes(), sink.options());
    }
    for (int64_t begin = 0; begin < hidden.size(0); begin += options.chunk) {
      const int64_t rows = std::min(options.chunk, hidden.size(0) - begin);
      const Tensor part = hidden.narrow(0, begin, rows);
      const ChunkLoss loss = chunk_loss(part, wide_weight, labels.narrow(0, begin, rows), options.z_loss, want_gradient);
      sum.add_(loss.each_t.sum());
      if (!want_gradient) continue;
      const Tensor d_logits = loss.d_logits_tv.to(hidden.scalar_type());
      Tensor target = d_hidden.narrow(0, begin, rows);
      at::mm_out(target, d_logits, weight);
      add_weight_gradient(d_weight, d_logits, part);
    }
    context->saved_data["d_hidden"] = d_hidden;
    context->saved_data["d_weight"] = d_weight;
    context->saved_data["sink"] = sink;
    return sum;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto& data = context->saved_data;
    Tensor sink = data["sink"].toTensor();
    const double scale = gradients[0].item<double>();
    sink.add_(data["d_weight"].toTensor(), scale);
    const Tensor d_hidden = data["d_hidden"].toTensor();
    return {scale == 1.0 ? d_hidden : d_hidden.mul(scale), Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

void check(const Tensor& hidden, const Tensor& weight, const Tensor& labels, const LinearCrossEntropyOptions& options) {
  constexpr const char* kOp = "linear_cross_entropy";
  if (hidden.dim() != 2 || !at::isFloatingType(hidden.scalar_type())) refuse_argument(kOp, "hidden", "[tokens, hidden], floating point", shape_text(hidden));
  if (weight.dim() != 2 || weight.size(1) != hidden.size(1) || weight.scalar_type() != hidden.scalar_type()) {
    refuse_argument(kOp, "weight", "[vocabulary, hidden] for hidden " + shape_text(hidden), shape_text(weight));
  }
  if (labels.sizes() != at::IntArrayRef({hidden.size(0)}) || labels.scalar_type() != at::kLong) {
    refuse_argument(kOp, "labels", "[" + std::to_string(hidden.size(0)) + "] int64", shape_text(labels));
  }
  if (labels.numel() > 0 && labels.max().item<int64_t>() >= weight.size(0)) {
    refuse_argument(kOp, "labels", "below " + std::to_string(weight.size(0)), std::to_string(labels.max().item<int64_t>()));
  }
  if (options.chunk < 1) refuse_argument(kOp, "chunk", "1 or more", std::to_string(options.chunk));
}

}  // namespace

Tensor linear_cross_entropy_sum(const Tensor& hidden, const Tensor& weight, const Tensor& labels, const Tensor& sink,
                                const LinearCrossEntropyOptions& options) {
  check(hidden, weight, labels, options);
  const bool want_gradient = at::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad());
  return LinearCrossEntropyFunction::apply(hidden.contiguous(), weight, labels, sink, options, want_gradient);
}

Tensor linear_cross_entropy_each(const Tensor& hidden, const Tensor& weight, const Tensor& labels, const LinearCrossEntropyOptions& options) {
  check(hidden, weight, labels, options);
  const at::NoGradGuard no_gradient;
  const Tensor wide_weight = weight.to(sum_type(hidden));
  Tensor each = at::empty({hidden.size(0)}, hidden.options().dtype(sum_type(hidden)));
  for (int64_t begin = 0; begin < hidden.size(0); begin += options.chunk) {
    const int64_t rows = std::min(options.chunk, hidden.size(0) - begin);
    each.narrow(0, begin, rows)
        .copy_(chunk_loss(hidden.narrow(0, begin, rows), wide_weight, labels.narrow(0, begin, rows), options.z_loss, false).each_t);
  }
  return each;
}

Tensor linear_cross_entropy_reference(const Tensor& hidden, const Tensor& weight, const Tensor& labels, double z_loss) {
  const ScalarType type = sum_type(hidden);
  const Tensor logits = at::mm(hidden.to(type), weight.to(type).t());
  const Tensor lse = logits.logsumexp(1);
  const Tensor picked = logits.gather(1, labels.clamp_min(0).unsqueeze(1)).squeeze(1);
  return lse.sub(picked).add(lse.square(), z_loss).mul(labels.ge(0)).sum();
}

}  // namespace longhaul::kernels
