#include "kernels/norm/op.h"

#include <fmt/format.h>

#include "base/threads/parallel.h"
#include "kernels/by_device.h"
#include "kernels/differentiable.h"
#include "kernels/documents.h"
#include "kernels/norm/cuda_call.h"
#include "kernels/norm/loops.h"
#include "kernels/vector/row_blocks.h"
#include "kernels/vector/tensors.h"

namespace longhaul::kernels {
namespace {

struct NormOptions {
  NormKind kind = NormKind::kRms;
  double eps = 0, alpha = 1, beta = 1;
  bool on_gpu = false;
};

Tensor contiguous(const Tensor& tensor) { return tensor.defined() ? tensor.contiguous() : tensor; }

void forward_cpu(const NormCall& call) {
  const NormForward problem{.storage = storage_of(call.x_tc),
                            .channels = call.x_tc.size(1),
                            .centred = call.kind == NormKind::kLayer,
                            .eps = call.eps,
                            .alpha = call.alpha,
                            .beta = call.beta,
                            .x_tc = pointer_to(call.x_tc),
                            .branch_tc = pointer_to(call.branch_tc),
                            .gate_tc = pointer_to(call.gate_tc),
                            .weight_c = pointer_to(call.weight_c),
                            .bias_c = pointer_to(call.bias_c),
                            .joined_tc = writable(call.joined_tc),
                            .y_tc = writable(call.y_tc),
                            .mean_t = writable(call.mean_t),
                            .scale_t = writable(call.scale_t)};
  parallel_for(0, call.x_tc.size(0), 8,
               [&](int64_t begin, int64_t end) { norm_forward_rows(problem, begin, end); });
}

void backward_cpu(const NormGradientCall& call) {
  const RowBlocks blocks = row_blocks(call.z_tc.size(0));
  const int64_t channels = call.z_tc.size(1);
  const Tensor dw = at::empty({blocks.count, channels}, call.weight_c.options()),
               db = call.db_c.defined() ? at::empty_like(dw) : Tensor();
  const NormBackward problem{.storage = storage_of(call.z_tc),
                             .channels = channels,
                             .centred = call.kind == NormKind::kLayer,
                             .alpha = call.alpha,
                             .beta = call.beta,
                             .z_tc = pointer_to(call.z_tc),
                             .gate_tc = pointer_to(call.gate_tc),
                             .weight_c = pointer_to(call.weight_c),
                             .mean_t = pointer_to(call.mean_t),
                             .scale_t = pointer_to(call.scale_t),
                             .dy_tc = pointer_to(call.dy_tc),
                             .d_joined_tc = pointer_to(call.d_joined_tc),
                             .dx_tc = writable(call.dx_tc),
                             .d_branch_tc = writable(call.d_branch_tc),
                             .d_gate_tc = writable(call.d_gate_tc)};
  parallel_for(0, blocks.count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      norm_backward_rows(problem, blocks.begin(b), blocks.end(b), writable_row(dw, b), writable_row(db, b));
  });
  call.dw_c.add_(sum_of_blocks(dw));
  if (db.defined()) call.db_c.add_(sum_of_blocks(db));
}

// Of {x, branch, gate, weight, bias}.
std::vector<Tensor> norm_gradients(const BackwardCall& back, const NormOptions& options, bool joins,
                                   bool has_bias) {
  const Tensor &z = back.saved[0], &gate = back.saved[1], &weight = back.saved[2], &mean = back.saved[3],
               &scale = back.saved[4];
  // The last join of a network may be used without its norm.
  const Tensor dy = back.gradients.back().defined() ? back.gradients.back().contiguous() : at::zeros_like(z);
  const NormGradientCall call{
      .kind = options.kind,
      .alpha = joins ? options.alpha : 1,
      .beta = options.beta,
      .z_tc = z,
      .gate_tc = gate,
      .weight_c = weight,
      .mean_t = mean,
      .scale_t = scale,
      .dy_tc = dy,
      .d_joined_tc = joins ? contiguous(back.gradients.front()) : Tensor(),
      .dx_tc = at::empty_like(z),
      .d_branch_tc = joins && options.alpha != options.beta ? at::empty_like(z) : Tensor(),
      .d_gate_tc = gate.defined() ? at::empty_like(gate) : Tensor(),
      .dw_c = at::zeros_like(weight),
      .db_c = has_bias ? at::zeros_like(weight) : Tensor()};
  (options.on_gpu ? cuda_calls<NormCuda>().backward : backward_cpu)(call);
  const Tensor d_branch = !joins ? Tensor() : options.alpha == options.beta ? call.dx_tc : call.d_branch_tc;
  return {call.dx_tc, d_branch, call.d_gate_tc, call.dw_c, call.db_c};
}

// What is normed is what is stored, so this is a join's result too.
Tensor norm_of(const Tensor& z, const Tensor& gate, const Tensor& weight, const Tensor& bias,
               const NormOptions& options) {
  const Tensor y = at::empty_like(z), scale = at::empty({z.size(0)}, weight.options());
  const NormCall call{.kind = options.kind,
                      .eps = options.eps,
                      .x_tc = z,
                      .gate_tc = gate,
                      .weight_c = weight,
                      .bias_c = bias,
                      .y_tc = y,
                      .mean_t = options.kind == NormKind::kLayer ? at::empty_like(scale) : Tensor(),
                      .scale_t = scale};
  (options.on_gpu ? cuda_calls<NormCuda>().forward : forward_cpu)(call);
  return y;
}

// → {y}, or with a branch {z, y}. Gate, branch and bias may be undefined.
std::vector<Tensor> norm(const char* op, const Tensor& x, const Tensor& branch, const Tensor& gate,
                         const Tensor& weight, const Tensor& bias, const NormOptions& options) {
  const auto run = [&]() -> Recorded {
    const Tensor scale = at::empty({x.size(0)}, weight.options());
    const NormCall call{
        .kind = options.kind,
        .eps = options.eps,
        .alpha = options.alpha,
        .beta = options.beta,
        .x_tc = contiguous(x),
        .branch_tc = contiguous(branch),
        .gate_tc = contiguous(gate),
        .weight_c = weight,
        .bias_c = bias,
        .joined_tc = branch.defined() ? at::empty_like(x, at::MemoryFormat::Contiguous) : Tensor(),
        .y_tc = at::empty_like(x, at::MemoryFormat::Contiguous),
        .mean_t = options.kind == NormKind::kLayer ? at::empty_like(scale) : Tensor(),
        .scale_t = scale};
    (options.on_gpu ? cuda_calls<NormCuda>().forward : forward_cpu)(call);
    const bool joins = branch.defined(), has_bias = bias.defined();
    const Tensor z = joins ? call.joined_tc : call.x_tc;
    return {
        .results = joins ? std::vector<Tensor>{call.joined_tc, call.y_tc} : std::vector<Tensor>{call.y_tc},
        .saved = {z, call.gate_tc, weight, call.mean_t, scale},
        .backward = [options, joins, has_bias](
                        const BackwardCall& back) { return norm_gradients(back, options, joins, has_bias); },
        .zeros_for_missing = false,
        .cheap = {{call.y_tc, {z, call.gate_tc, weight, bias}, [options](const std::vector<Tensor>& from) {
                     return norm_of(from[0], from[1], from[2], from[3], options);
                   }}}};
  };
  return differentiable(op, {x, branch, gate, weight, bias}, run);
}

Refusal refuse_gpu(const Tensor& x) {
  const Refusal refusal = refuse_cuda(x);
  return refusal.empty() ? cuda_calls<NormCuda>().refuse(x) : refusal;
}

MetaResult like(const Tensor& x) { return {x.sizes().vec(), x.scalar_type()}; }

void check_rows(const char* op, const Tensor& x) {
  if (x.dim() != 2 || x.size(1) == 0 || !at::isFloatingType(x.scalar_type()) ||
      x.scalar_type() == at::kHalf) {
    refuse_argument(op, "x", "[tokens, channels] in bf16, fp32 or fp64", shape_text(x));
  }
}

// A companion of x: gate or branch.
void check_like(const char* op, const char* argument, const Tensor& tensor, const Tensor& x) {
  if (tensor.sizes() != x.sizes() || tensor.scalar_type() != x.scalar_type() || tensor.device() != x.device())
    refuse_argument(op, argument, shape_text(x), shape_text(tensor));
}

void check_weight(const char* op, const char* argument, const Tensor& weight, const Tensor& x) {
  const ScalarType wide = wide_type(x);
  if (weight.sizes() != at::IntArrayRef({x.size(1)}) || weight.scalar_type() != wide ||
      !weight.is_contiguous() || weight.device() != x.device()) {
    refuse_argument(op, argument, fmt::format("[{}] {}", x.size(1), name_of(wide)), shape_text(weight));
  }
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps, const Tensor& gate) {
  check_rows("rms_norm", x);
  check_weight("rms_norm", "weight", weight, x);
  if (gate.defined()) check_like("rms_norm", "gate", gate, x);
  const ByDevice choice = choose_by_device("rms_norm", x, refuse_gpu(x));
  if (choice == ByDevice::kMeta) return meta_results({x, weight, gate}, {like(x)})[0];
  if (choice == ByDevice::kAten) return rms_norm_reference(x, weight, eps, gate);
  return norm("rms_norm", x, Tensor(), gate, weight, Tensor(),
              {.eps = eps, .on_gpu = choice == ByDevice::kCuda})[0];
}

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  check_rows("layer_norm", x);
  check_weight("layer_norm", "weight", weight, x);
  if (bias.defined()) check_weight("layer_norm", "bias", bias, x);
  const ByDevice choice = choose_by_device("layer_norm", x, refuse_gpu(x));
  if (choice == ByDevice::kMeta) return meta_results({x, weight, bias}, {like(x)})[0];
  if (choice == ByDevice::kAten) return layer_norm_reference(x, weight, bias, eps);
  return norm("layer_norm", x, Tensor(), Tensor(), weight, bias,
              {.kind = NormKind::kLayer, .eps = eps, .on_gpu = choice == ByDevice::kCuda})[0];
}

JoinedNorm join_norm(NormKind kind, const Tensor& x, const Tensor& branch, double alpha, double beta,
                     const Tensor& weight, const Tensor& bias, double eps) {
  check_rows("join_norm", x);
  check_like("join_norm", "branch", branch, x);
  check_weight("join_norm", "weight", weight, x);
  if (bias.defined()) {
    if (kind == NormKind::kRms)
      refuse_argument("join_norm", "bias", "none: an RMSNorm has no bias", shape_text(bias));
    check_weight("join_norm", "bias", bias, x);
  }
  const ByDevice choice = choose_by_device("join_norm", x, refuse_gpu(x));
  if (choice == ByDevice::kAten) return join_norm_reference(kind, x, branch, alpha, beta, weight, bias, eps);
  const std::vector<Tensor> both = choice == ByDevice::kMeta
                                       ? meta_results({x, branch, weight, bias}, {like(x), like(x)})
                                       : norm("join_norm", x, branch, Tensor(), weight, bias,
                                              {.kind = kind,
                                               .eps = eps,
                                               .alpha = alpha,
                                               .beta = beta,
                                               .on_gpu = choice == ByDevice::kCuda});
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

JoinedNorm join_norm_reference(NormKind kind, const Tensor& x, const Tensor& branch, double alpha,
                               double beta, const Tensor& weight, const Tensor& bias, double eps) {
  const ScalarType wide = weight.scalar_type();
  const Tensor joined = at::add(x.to(wide).mul(alpha), branch.to(wide), beta).to(x.scalar_type());
  return {joined, kind == NormKind::kRms ? rms_norm_reference(joined, weight, eps)
                                         : layer_norm_reference(joined, weight, bias, eps)};
}

}  // namespace longhaul::kernels
