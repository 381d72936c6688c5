#include "kernels/linear_cross_entropy/op.h"

#include <torch/csrc/autograd/custom_function.h>

#include "kernels/by_device.h"
#include "kernels/documents.h"
#include "kernels/linear_cross_entropy/cuda_call.h"
#include "kernels/linear_cross_entropy/problem.h"

namespace longhaul::kernels {
namespace {

constexpr const char* kOp = "linear_cross_entropy";

Tensor cross_entropy_cuda(const CrossEntropyProblem& problem, const CrossEntropyGradients& gradients) {
  return cuda_calls<CrossEntropyCuda>().run(problem, gradients);
}

using Implementation = Tensor (*)(const CrossEntropyProblem&, const CrossEntropyGradients&);
constexpr Implementation kImplementations[] = {&cross_entropy_cuda, &cross_entropy_fused, &cross_entropy_chunked, &cross_entropy_reference};

Refusal refuse_gpu(const CrossEntropyProblem& problem, const CrossEntropyGradients& gradients) {
  const Refusal refusal = refuse_cuda(problem.hidden_td);
  if (!refusal.empty()) return refusal;
  return gradients.sink_vd.defined() && gradients.sink_vd.scalar_type() != at::kFloat ? "the weight's gradient is not kept in fp32" : "";
}

Tensor dispatched(const CrossEntropyProblem& problem, const CrossEntropyGradients& gradients) {
  static constexpr std::string_view kNames[] = {"cuda", "fused", "chunked", "reference"};
  const size_t choice = Dispatcher(kOp, kNames).choose([&](size_t i) {
    if (i == 0) return refuse_gpu(problem, gradients);
    if (i == 1) return refuse_cross_entropy_fused(problem, gradients);
    return i == 3 && !problem.hidden_td.is_cpu() ? kNotOnCpu : Refusal();
  });
  return kImplementations[choice](problem, gradients);
}

// Tokens with a label, and where they stood; all tokens where choosing would make the host wait for a device.
struct Labelled {
  CrossEntropyProblem problem;
  Tensor rows;  // undefined: all of them

  Tensor spread(const Tensor& values) const {  // back to all tokens, zeros elsewhere
    if (!rows.defined()) return values;
    std::vector<int64_t> sizes = values.sizes().vec();
    sizes[0] = tokens;
    return at::zeros(sizes, values.options()).index_copy_(0, rows, values);
  }
  int64_t tokens = 0;
};

Labelled labelled(const Tensor& hidden, const Tensor& weight, const Tensor& labels, const LinearCrossEntropyOptions& options,
                  KeptPacked kept) {
  if (!weight.is_contiguous()) kept = {};  // a copy of it, made for this call, is not what was packed
  Labelled result{
      {hidden.detach().contiguous(), weight.detach().contiguous(), labels.contiguous(), options, kept}, Tensor(), hidden.size(0)};
  result.problem.all_labelled = labels.is_cpu();
  if (!result.problem.all_labelled) return result;
  const Tensor has_label = labels.ge(0);
  if (has_label.all().item<bool>()) return result;
  result.rows = has_label.nonzero().squeeze(1);
  result.problem.hidden_td = result.problem.hidden_td.index_select(0, result.rows);
  result.problem.labels_t = labels.index_select(0, result.rows);
  return result;
}

// In order, so that the sum does not depend on the number of threads.
Tensor sum_in_order(const Tensor& each_t) {
  if (!each_t.is_cpu()) return each_t.sum(at::kDouble).to(each_t.scalar_type());
  const Tensor wide = each_t.to(at::kCPU, at::kDouble);
  const double* values = wide.const_data_ptr<double>();
  double sum = 0;
  for (int64_t t = 0; t < wide.numel(); ++t) sum += values[t];
  return at::full({}, sum, each_t.options());
}

class CrossEntropySum : public torch::autograd::Function<CrossEntropySum> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& hidden, const Tensor& weight, const Tensor& labels,
                        const std::optional<Tensor>& sink, const LinearCrossEntropyOptions& options, const KeptPacked& kept,
                        bool want_gradient) {
    const Labelled some = labelled(hidden, weight, labels, options, kept);
    CrossEntropyGradients gradients;
    if (want_gradient) gradients = {at::empty_like(some.problem.hidden_td), sink.value_or(Tensor())};
    const Tensor each_t = dispatched(some.problem, gradients);
    if (want_gradient) {
      context->save_for_backward({hidden, weight, labels});
      context->saved_data["sink"] = gradients.sink_vd;
      context->saved_data["d_hidden"] = some.spread(gradients.hidden_td);
      context->saved_data["z_loss"] = options.z_loss;
      context->saved_data["chunk"] = options.chunk;
      context->saved_data["upstream"] = options.upstream;
      context->saved_data["given_to_sink"] = options.upstream;
      context->saved_data["kept"] = reinterpret_cast<int64_t>(kept.copies);
      context->saved_data["version"] = static_cast<int64_t>(kept.version);
    }
    return sum_in_order(each_t);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, torch::autograd::variable_list gradients) {
    return once_differentiable(kOp, [&]() -> std::vector<Tensor> {
      auto& data = context->saved_data;
      const double scale = gradients[0].item<double>(), upstream = data["upstream"].toDouble();
      // What the sink still lacks of this gradient.
      const double rest = scale - data["given_to_sink"].toDouble();
      data["given_to_sink"] = 0.0;
      const Tensor sink = data["sink"].toTensor();
      if (rest != 0 && sink.defined()) {
        const auto saved = context->get_saved_variables();
        const LinearCrossEntropyOptions options{.z_loss = data["z_loss"].toDouble(), .chunk = data["chunk"].toInt(), .upstream = rest};
        const KeptPacked kept{reinterpret_cast<PackedWeight*>(data["kept"].toInt()), static_cast<uint64_t>(data["version"].toInt())};
        dispatched(labelled(saved[0], saved[1], saved[2], options, kept).problem, {Tensor(), sink});
      }
      const Tensor d_hidden = data["d_hidden"].toTensor();
      return {scale == upstream ? d_hidden : d_hidden.mul(scale / upstream), Tensor(), Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
    });
  }
};

class CrossEntropyMean : public torch::autograd::Function<CrossEntropyMean> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& hidden, const Tensor& weight, const Tensor& labels,
                        double z_loss, bool want_hidden, bool want_weight) {
    Labelled some = labelled(hidden, weight, labels, {.z_loss = z_loss}, {});
    const int64_t count = labels.is_cpu() ? some.problem.tokens() : labels.ge(0).sum().item<int64_t>();
    some.problem.options.upstream = count > 0 ? 1.0 / static_cast<double>(count) : 1.0;
    CrossEntropyGradients gradients;
    if (want_hidden) gradients.hidden_td = at::empty_like(some.problem.hidden_td);
    if (want_weight) gradients.sink_vd = at::zeros(weight.sizes(), weight.options().dtype(some.problem.sum_type()).requires_grad(false));
    const Tensor each_t = dispatched(some.problem, gradients);
    context->saved_data["d_hidden"] = want_hidden ? some.spread(gradients.hidden_td) : Tensor();
    context->saved_data["d_weight"] = want_weight ? gradients.sink_vd.to(weight.scalar_type()) : Tensor();
    return sum_in_order(each_t).mul_(some.problem.options.upstream);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, torch::autograd::variable_list gradients) {
    return once_differentiable(kOp, [&]() -> std::vector<Tensor> {
      const double scale = gradients[0].item<double>();
      const auto scaled = [&](const char* name) {
        const Tensor gradient = context->saved_data[name].toTensor();
        return gradient.defined() && scale != 1 ? gradient.mul(scale) : gradient;
      };
      return {scaled("d_hidden"), scaled("d_weight"), Tensor(), Tensor(), Tensor(), Tensor()};
    });
  }
};

MetaResult scalar_of(const Tensor& hidden) { return {{}, hidden.scalar_type() == at::kDouble ? at::kDouble : at::kFloat}; }

void check(const Tensor& hidden, const Tensor& weight, const Tensor& labels, const LinearCrossEntropyOptions& options) {
  if (hidden.dim() != 2 || !at::isFloatingType(hidden.scalar_type()))
    refuse_argument(kOp, "hidden", "[tokens, hidden], floating point", shape_text(hidden));
  if (weight.dim() != 2 || weight.size(0) == 0 || weight.size(1) != hidden.size(1) || weight.scalar_type() != hidden.scalar_type() ||
      weight.device() != hidden.device()) {
    refuse_argument(kOp, "weight", "[vocabulary, hidden] for hidden " + shape_text(hidden), shape_text(weight));
  }
  if (labels.sizes() != at::IntArrayRef({hidden.size(0)}) || labels.scalar_type() != at::kLong || labels.device() != hidden.device()) {
    refuse_argument(kOp, "labels", "[" + std::to_string(hidden.size(0)) + "] int64", shape_text(labels));
  }
  if (labels.is_cuda()) {
    at::_assert_async(labels.lt(weight.size(0)).all(), "linear_cross_entropy: a label is not in the vocabulary");  // the host does not wait
  } else if (labels.is_cpu() && labels.numel() > 0 && labels.max().item<int64_t>() >= weight.size(0)) {
    refuse_argument(kOp, "labels", "below " + std::to_string(weight.size(0)), std::to_string(labels.max().item<int64_t>()));
  }
  if (options.chunk < 1) refuse_argument(kOp, "chunk", "1 or more", std::to_string(options.chunk));
}

void check_sink(const Tensor& sink, const Tensor& weight) {
  if (sink.sizes() != weight.sizes() || !sink.is_contiguous() || !at::isFloatingType(sink.scalar_type()) ||
      sink.device() != weight.device()) {
    refuse_argument(kOp, "sink", "the shape of weight, contiguous, floating point: " + shape_text(weight), shape_text(sink));
  }
}

}  // namespace

Tensor linear_cross_entropy_sum(const Tensor& hidden, const Tensor& weight, const Tensor& labels, const Tensor& sink,
                                const LinearCrossEntropyOptions& options, KeptPacked kept) {
  check(hidden, weight, labels, options);
  if (sink.defined()) check_sink(sink, weight);
  if (hidden.is_meta()) return meta_results({hidden}, {scalar_of(hidden)})[0];
  const bool want_gradient = at::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad());
  return CrossEntropySum::apply(hidden, weight, labels, sink.defined() ? std::optional<Tensor>(sink) : std::nullopt, options, kept,
                                want_gradient);
}

Tensor linear_cross_entropy_each(const Tensor& hidden, const Tensor& weight, const Tensor& labels, const LinearCrossEntropyOptions& options,
                                 KeptPacked kept) {
  check(hidden, weight, labels, options);
  const at::NoGradGuard no_gradient;
  if (hidden.is_meta()) return at::empty({hidden.size(0)}, hidden.options().dtype(scalar_of(hidden).type));
  const Labelled some = labelled(hidden, weight, labels, options, kept);
  return some.spread(dispatched(some.problem, {}));
}

Tensor linear_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& labels, double z_loss) {
  check(hidden, weight, labels, {.z_loss = z_loss});
  if (hidden.is_meta()) return meta_results({hidden, weight}, {scalar_of(hidden)})[0];
  const bool gradients = at::GradMode::is_enabled();
  return CrossEntropyMean::apply(hidden, weight, labels, z_loss, gradients && hidden.requires_grad(), gradients && weight.requires_grad());
}

}  // namespace longhaul::kernels
