#include "kernels/norm/op.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/parallel.h"
#include "kernels/by_device.h"
#include "kernels/documents.h"
#include "kernels/norm/loops.h"
#include "kernels/vector/row_blocks.h"
#include "kernels/vector/tensors.h"

namespace longhaul::kernels {
namespace {

using torch::autograd::variable_list;
using OptionalTensor = std::optional<Tensor>;

struct NormOptions {
  NormKind kind = NormKind::kRms;
  double eps = 0, alpha = 1, beta = 1;
};

OptionalTensor optional(const Tensor& tensor) { return tensor.defined() ? OptionalTensor(tensor.contiguous()) : std::nullopt; }

class NormFunction : public torch::autograd::Function<NormFunction> {
 public:
  // → {y}, or with a branch {z, y}.
  static variable_list forward(torch::autograd::AutogradContext* context, const Tensor& x, const OptionalTensor& branch,
                               const OptionalTensor& gate, const Tensor& weight, const OptionalTensor& bias, const NormOptions& options) {
    const bool centred = options.kind == NormKind::kLayer;
    const int64_t rows = x.size(0), channels = x.size(1);
    const Tensor joined = branch ? at::empty_like(x) : Tensor(), y = at::empty_like(x);
    const Tensor scale = at::empty({rows}, weight.options()), mean = centred ? at::empty_like(scale) : Tensor();
    const NormForward problem{.storage = storage_of(x),
                              .channels = channels,
                              .centred = centred,
                              .eps = options.eps,
                              .alpha = options.alpha,
                              .beta = options.beta,
                              .x_tc = pointer_to(x),
                              .branch_tc = pointer_to(branch.value_or(Tensor())),
                              .gate_tc = pointer_to(gate.value_or(Tensor())),
                              .weight_c = pointer_to(weight),
                              .bias_c = pointer_to(bias.value_or(Tensor())),
                              .joined_tc = writable(joined),
                              .y_tc = writable(y),
                              .mean_t = writable(mean),
                              .scale_t = writable(scale)};
    parallel_for(0, rows, 8, [&](int64_t begin, int64_t end) { norm_forward_rows(problem, begin, end); });
    context->save_for_backward({branch ? joined : x, gate.value_or(Tensor()), weight, mean, scale});
    context->saved_data["alpha"] = options.alpha;
    context->saved_data["beta"] = options.beta;
    context->saved_data["branch"] = branch.has_value();
    context->saved_data["bias"] = bias.has_value();
    context->set_materialize_grads(false);
    return branch ? variable_list{joined, y} : variable_list{y};
  }

  static variable_list backward(torch::autograd::AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &z = saved[0], &gate = saved[1], &weight = saved[2], &mean = saved[3], &scale = saved[4];
    auto& data = context->saved_data;
    const bool branch = data["branch"].toBool();
    const double alpha = data["alpha"].toDouble(), beta = data["beta"].toDouble();
    Tensor dy = gradients.back(), d_joined = branch ? gradients.front() : Tensor();
    dy = dy.defined() ? dy.contiguous() : at::zeros_like(z);  // the last join of a network may be used without its norm
    if (d_joined.defined()) d_joined = d_joined.contiguous();

    const RowBlocks blocks = row_blocks(z.size(0));
    const int64_t channels = z.size(1);
    const Tensor dx = at::empty_like(z), d_branch = branch && alpha != beta ? at::empty_like(z) : Tensor();
    const Tensor d_gate = gate.defined() ? at::empty_like(gate) : Tensor();
    const Tensor dw = at::empty({blocks.count, channels}, weight.options());
    const Tensor db = data["bias"].toBool() ? at::empty_like(dw) : Tensor();
    const NormBackward problem{.storage = storage_of(z),
                               .channels = channels,
                               .centred = mean.defined(),
                               .alpha = alpha,
                               .beta = beta,
                               .z_tc = pointer_to(z),
                               .gate_tc = pointer_to(gate),
                               .weight_c = pointer_to(weight),
                               .mean_t = pointer_to(mean),
                               .scale_t = pointer_to(scale),
                               .dy_tc = pointer_to(dy),
                               .d_joined_tc = pointer_to(d_joined),
                               .dx_tc = writable(dx),
                               .d_branch_tc = writable(d_branch),
                               .d_gate_tc = writable(d_gate)};
    parallel_for(0, blocks.count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        norm_backward_rows(problem, blocks.begin(b), blocks.end(b), writable_row(dw, b), writable_row(db, b));
      }
    });
    return {dx,      !branch ? Tensor() : alpha == beta ? dx : d_branch, d_gate, sum_of_blocks(dw), db.defined() ? sum_of_blocks(db) : Tensor(),
            Tensor()};
  }
};

MetaResult like(const Tensor& x) { return {x.sizes().vec(), x.scalar_type()}; }

void check_rows(const char* op, const Tensor& x) {
  if (x.dim() != 2 || x.size(1) == 0 || !at::isFloatingType(x.scalar_type()) || x.scalar_type() == at::kHalf) {
    refuse_argument(op, "x", "[tokens, channels] in bf16, fp32 or fp64", shape_text(x));
  }
}

// A companion of x: gate or branch.
void check_like(const char* op, const char* argument, const Tensor& tensor, const Tensor& x) {
  if (tensor.sizes() != x.sizes() || tensor.scalar_type() != x.scalar_type() || tensor.device() != x.device()) refuse_argument(op, argument, shape_text(x), shape_text(tensor));
}

void check_weight(const char* op, const char* argument, const Tensor& weight, const Tensor& x) {
  const ScalarType wide = wide_type(x);
  if (weight.sizes() != at::IntArrayRef({x.size(1)}) || weight.scalar_type() != wide || !weight.is_contiguous() || weight.device() != x.device()) {
    refuse_argument(op, argument, fmt::format("[{}] {}", x.size(1), name_of(wide)), shape_text(weight));
  }
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps, const Tensor& gate) {
  check_rows("rms_norm", x);
  check_weight("rms_norm", "weight", weight, x);
  if (gate.defined()) check_like("rms_norm", "gate", gate, x);
  switch (choose_by_device("rms_norm", x)) {
    case ByDevice::kCpu: return NormFunction::apply(x.contiguous(), std::nullopt, optional(gate), weight, std::nullopt, NormOptions{.eps = eps})[0];
    case ByDevice::kMeta: return meta_results({x, weight, gate}, {like(x)})[0];
    default: return rms_norm_reference(x, weight, eps, gate);
  }
}

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  check_rows("layer_norm", x);
  check_weight("layer_norm", "weight", weight, x);
  if (bias.defined()) check_weight("layer_norm", "bias", bias, x);
  switch (choose_by_device("layer_norm", x)) {
    case ByDevice::kCpu:
      return NormFunction::apply(x.contiguous(), std::nullopt, std::nullopt, weight, optional(bias), NormOptions{.kind = NormKind::kLayer, .eps = eps})[0];
    case ByDevice::kMeta: return meta_results({x, weight, bias}, {like(x)})[0];
    default: return layer_norm_reference(x, weight, bias, eps);
  }
}

JoinedNorm join_norm(NormKind kind, const Tensor& x, const Tensor& branch, double alpha, double beta, const Tensor& weight, const Tensor& bias,
                     double eps) {
  check_rows("join_norm", x);
  check_like("join_norm", "branch", branch, x);
  check_weight("join_norm", "weight", weight, x);
  if (bias.defined()) {
    if (kind == NormKind::kRms) refuse_argument("join_norm", "bias", "none: an RMSNorm has no bias", shape_text(bias));
    check_weight("join_norm", "bias", bias, x);
  }
  variable_list both;
  switch (choose_by_device("join_norm", x)) {
    case ByDevice::kCpu:
      both = NormFunction::apply(x.contiguous(), optional(branch), std::nullopt, weight, optional(bias),
                                 NormOptions{.kind = kind, .eps = eps, .alpha = alpha, .beta = beta});
      break;
    case ByDevice::kMeta: both = meta_results({x, branch, weight, bias}, {like(x), like(x)}); break;
    default: return join_norm_reference(kind, x, branch, alpha, beta, weight, bias, eps);
  }
  return {both[0], both[1]};
}

Tensor rms_norm_reference(const Tensor& x, const Tensor& weight, double eps, const Tensor& gate) {
  const Tensor wide = x.to(weight.scalar_type());
  const Tensor y = wide.mul(wide.square().mean(-1, true).add(eps).rsqrt()).mul(weight);
  return (gate.defined() ? y.mul(gate.to(weight.scalar_type()).sigmoid()) : y).to(x.scalar_type());
}

Tensor layer_norm_reference(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  const Tensor wide = x.to(weight.scalar_type()), centred = wide - wide.mean(-1, true);
  const Tensor y = centred.mul(centred.square().mean(-1, true).add(eps).rsqrt()).mul(weight);
  return (bias.defined() ? y.add(bias) : y).to(x.scalar_type());
}

JoinedNorm join_norm_reference(NormKind kind, const Tensor& x, const Tensor& branch, double alpha, double beta, const Tensor& weight,
                               const Tensor& bias, double eps) {
  const ScalarType wide = weight.scalar_type();
  const Tensor joined = at::add(x.to(wide).mul(alpha), branch.to(wide), beta).to(x.scalar_type());
  return {joined, kind == NormKind::kRms ? rms_norm_reference(joined, weight, eps) : layer_norm_reference(joined, weight, bias, eps)};
}

}  // namespace longhaul::kernels
