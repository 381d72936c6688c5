#include "kernels/linear_cross_entropy/op.h"

#include <utility>

#include "kernels/by_device.h"
#include "kernels/differentiable.h"
#include "kernels/documents.h"
#include "kernels/known_gradient.h"
#include "kernels/linear/wide_product.h"
#include "kernels/linear_cross_entropy/cuda_call.h"
#include "kernels/linear_cross_entropy/problem.h"
#include "kernels/operator_clock.h"

namespace longhaul::kernels {
namespace {

constexpr const char* kOp = "linear_cross_entropy";

Tensor cross_entropy_cuda(const CrossEntropyProblem& problem, const CrossEntropyGradients& gradients) {
  return cuda_calls<CrossEntropyCuda>().run(problem, gradients);
}

using Implementation = Tensor (*)(const CrossEntropyProblem&, const CrossEntropyGradients&);
constexpr Implementation kImplementations[] = {&cross_entropy_cuda, &cross_entropy_fused, &cross_entropy_aten,
                                               &cross_entropy_reference};

Tensor dispatched(const CrossEntropyProblem& problem, const CrossEntropyGradients& gradients) {
  static constexpr std::string_view kNames[] = {"cuda", "fused", "aten", "reference"};
  count_product(problem.hidden_td, problem.weight_vd);
  if (gradients.hidden_td.defined()) count_product(problem.hidden_td, problem.weight_vd);
  if (gradients.sink_vd.defined()) count_product(problem.hidden_td, problem.weight_vd);
  const size_t choice = Dispatcher(kOp, kNames).choose([&](size_t i) {
    if (i == 0) return refuse_cross_entropy_cuda(problem, gradients);
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

Labelled labelled(const Tensor& hidden, const Tensor& weight, const Tensor& labels,
                  const LinearCrossEntropyOptions& options, KeptPacked kept) {
  if (!weight.is_contiguous()) kept = {};  // a copy of it, made for this call, is not what was packed
  Labelled result{
      {hidden.detach().contiguous(), weight.detach().contiguous(), labels.contiguous(), options, kept},
      Tensor(),
      hidden.size(0)};
  if (options.chunk == 0) result.problem.options.chunk = head_chunk(hidden, weight.size(0));
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

MetaResult scalar_of(const Tensor& hidden) {
  return {{}, hidden.scalar_type() == at::kDouble ? at::kDouble : at::kFloat};
}

}  // namespace

int64_t head_chunk(const Tensor& hidden, int64_t vocabulary) {
  if (!on_gpu(hidden)) return kHeadTokens;
  // Chunks of equal length: a last one of few rows would be as slow as a whole one.
  const int64_t bytes = vocabulary * static_cast<int64_t>(sizeof(float) + 2),
                most = std::max(kHeadTokens, kHeadBytes / bytes),
                tokens = std::max<int64_t>(1, hidden.size(0)), chunks = (tokens + most - 1) / most;
  return (tokens + chunks - 1) / chunks;
}

Refusal refuse_cross_entropy_cuda(const CrossEntropyProblem& problem,
                                  const CrossEntropyGradients& gradients) {
  const Refusal refusal = refuse_cuda(problem.hidden_td);
  if (!refusal.empty()) return refusal;
  if (!has_wide_product(problem.hidden_td)) return "LibTorch's products with fp32 results failed their check";
  return gradients.sink_vd.defined() && gradients.sink_vd.scalar_type() != at::kFloat
             ? "the weight's gradient is not kept in fp32"
             : "";
}

void check_labels(const Tensor& labels, int64_t vocabulary) {
  if (labels.is_cuda()) {
    // the host does not wait
    at::_assert_async(labels.lt(vocabulary).all(), "linear_cross_entropy: a label is not in the vocabulary");
  } else if (labels.is_cpu() && labels.numel() > 0 && labels.max().item<int64_t>() >= vocabulary) {
    refuse_argument(kOp, "labels", "below " + std::to_string(vocabulary),
                    std::to_string(labels.max().item<int64_t>()));
  }
}

void check_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& labels,
                         const LinearCrossEntropyOptions& options) {
  if (hidden.dim() != 2 || !at::isFloatingType(hidden.scalar_type()))
    refuse_argument(kOp, "hidden", "[tokens, hidden], floating point", shape_text(hidden));
  if (weight.dim() != 2 || weight.size(0) == 0 || weight.size(1) != hidden.size(1) ||
      weight.scalar_type() != hidden.scalar_type() || weight.device() != hidden.device()) {
    refuse_argument(kOp, "weight", "[vocabulary, hidden] for hidden " + shape_text(hidden),
                    shape_text(weight));
  }
  if (labels.sizes() != at::IntArrayRef({hidden.size(0)}) || labels.scalar_type() != at::kLong ||
      labels.device() != hidden.device()) {
    refuse_argument(kOp, "labels", "[" + std::to_string(hidden.size(0)) + "] int64", shape_text(labels));
  }
  check_labels(labels, weight.size(0));
  if (options.chunk < 0) refuse_argument(kOp, "chunk", "0 or more", std::to_string(options.chunk));
}

void check_cross_entropy_sink(const Tensor& sink, const Tensor& weight) {
  if (sink.sizes() != weight.sizes() || !sink.is_contiguous() || !at::isFloatingType(sink.scalar_type()) ||
      sink.device() != weight.device()) {
    refuse_argument(kOp, "sink", "the shape of weight, contiguous, floating point: " + shape_text(weight),
                    shape_text(sink));
  }
}

Tensor linear_cross_entropy_sum(const Tensor& hidden, const Tensor& weight, const Tensor& labels,
                                const GradientSink& sink, const LinearCrossEntropyOptions& options,
                                KeptPacked kept) {
  check_cross_entropy(hidden, weight, labels, options);
  if (sink.wanted()) check_cross_entropy_sink(sink.buffer(), weight);
  if (hidden.is_meta()) return meta_results({hidden}, {scalar_of(hidden)}, {sink})[0];
  const bool want_gradient = at::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad());
  return differentiable(kOp, {hidden, weight}, [&]() -> Recorded {
    const Labelled some = labelled(hidden, weight, labels, options, kept);
    CrossEntropyGradients gradients;
    if (want_gradient) gradients = {at::empty_like(some.problem.hidden_td), sink.buffer()};
    const Tensor sum = sum_in_order(dispatched(some.problem, gradients));
    if (!want_gradient) return {.results = {sum}};
    return {
        .results = {sum},
        .saved = {hidden, weight, labels},
        .backward =
            [=, d_hidden = some.spread(gradients.hidden_td),
             given_to_sink = options.upstream](const BackwardCall& call) mutable {
              const double scale = value_of_gradient(call.gradients[0]);
              // What the sink still lacks of this gradient.
              const double rest = scale - std::exchange(given_to_sink, 0.0);
              sink.add([=, saved = call.saved](const Tensor& buffer) {
                if (rest == 0) return;
                LinearCrossEntropyOptions again = options;
                again.upstream = rest;
                dispatched(labelled(saved[0], saved[1], saved[2], again, kept).problem, {Tensor(), buffer});
              });
              return std::vector<Tensor>{
                  scale == options.upstream ? d_hidden : d_hidden.mul(scale / options.upstream), Tensor()};
            },
        .sinks = {sink}};
  })[0];
}

Tensor linear_cross_entropy_each(const Tensor& hidden, const Tensor& weight, const Tensor& labels,
                                 const LinearCrossEntropyOptions& options, KeptPacked kept) {
  check_cross_entropy(hidden, weight, labels, options);
  const at::NoGradGuard no_gradient;
  if (hidden.is_meta()) return at::empty({hidden.size(0)}, hidden.options().dtype(scalar_of(hidden).type));
  const Labelled some = labelled(hidden, weight, labels, options, kept);
  return some.spread(dispatched(some.problem, {}));
}

Tensor linear_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& labels, double z_loss) {
  check_cross_entropy(hidden, weight, labels, {.z_loss = z_loss});
  if (hidden.is_meta()) return meta_results({hidden, weight}, {scalar_of(hidden)})[0];
  const bool gradients = at::GradMode::is_enabled();
  const bool want_hidden = gradients && hidden.requires_grad(),
             want_weight = gradients && weight.requires_grad();
  return differentiable(kOp, {hidden, weight}, [&]() -> Recorded {
    Labelled some = labelled(hidden, weight, labels, {.z_loss = z_loss}, {});
    const int64_t count = labels.is_cpu() ? some.problem.tokens() : labels.ge(0).sum().item<int64_t>();
    some.problem.options.upstream = count > 0 ? 1.0 / static_cast<double>(count) : 1.0;
    CrossEntropyGradients made;
    if (want_hidden) made.hidden_td = at::empty_like(some.problem.hidden_td);
    if (want_weight)
      made.sink_vd =
          at::zeros(weight.sizes(), weight.options().dtype(some.problem.sum_type()).requires_grad(false));
    const Tensor each_t = dispatched(some.problem, made);
    const Tensor d_hidden = want_hidden ? some.spread(made.hidden_td) : Tensor(),
                 d_weight = want_weight ? made.sink_vd.to(weight.scalar_type()) : Tensor();
    return {.results = {sum_in_order(each_t).mul_(some.problem.options.upstream)},
            .backward = [=](const BackwardCall& call) {
              const double scale = value_of_gradient(call.gradients[0]);
              const auto scaled = [&](const Tensor& gradient) {
                return gradient.defined() && scale != 1 ? gradient.mul(scale) : gradient;
              };
              return std::vector<Tensor>{scaled(d_hidden), scaled(d_weight)};
            }};
  })[0];
}

}  // namespace longhaul::kernels
