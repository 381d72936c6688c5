#include "kernels/activation/op.h"

#include <fmt/format.h>

#include "base/threads/parallel.h"
#include "kernels/activation/cuda_call.h"
#include "kernels/activation/loops.h"
#include "kernels/by_device.h"
#include "kernels/differentiable.h"
#include "kernels/documents.h"
#include "kernels/vector/row_blocks.h"
#include "kernels/vector/tensors.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kGrainElements = 1 << 14;  // a thread's share at least: some microseconds of work

int64_t row_grain(int64_t columns) {
  return std::max<int64_t>(1, kGrainElements / std::max<int64_t>(1, columns));
}

Heads heads_of(const Tensor& x_tc, int64_t heads, int64_t kv_heads, int64_t head_dim) {
  const Tensor x_thd = x_tc.view({x_tc.size(0), heads + 2 * kv_heads, head_dim});
  return {x_thd.narrow(1, 0, heads), x_thd.narrow(1, heads, kv_heads),
          x_thd.narrow(1, heads + kv_heads, kv_heads)};
}

// A gradient [rows, …] as a matrix whose rows are contiguous, however far apart.
Tensor with_contiguous_rows(const Tensor& dy) {
  return dy.numel() == 0 || dy[0].is_contiguous() ? dy : dy.contiguous();
}

Tensor silu_heads_gradient(const Tensor& x, const std::vector<Tensor>& gradients, bool on_gpu) {
  const Tensor dx = at::empty_like(x);
  if (on_gpu) {
    cuda_calls<ActivationCuda>().silu_backward(x, at::cat(gradients, 1), dx);
    return dx;
  }
  const int64_t rows = x.size(0), columns = x.size(1);
  SiluBackward problem{
      .storage = storage_of(x), .columns = columns, .x_tc = pointer_to(x), .dx_tc = writable(dx)};
  std::array<Tensor, 3> alive;
  for (size_t i = 0; i < gradients.size(); ++i) {
    alive[i] = with_contiguous_rows(gradients[i]);
    problem.dy[i] = {pointer_to(alive[i]), rows == 0 ? 0 : alive[i].numel() / rows, alive[i].stride(0)};
  }
  parallel_for(0, rows, row_grain(columns),
               [&](int64_t begin, int64_t end) { silu_backward_rows(problem, begin, end); });
  return dx;
}

Tensor silu_result(const Tensor& x, bool on_gpu) {
  const Tensor y = at::empty_like(x);
  if (on_gpu) {
    cuda_calls<ActivationCuda>().silu_forward(x, y);
  } else {
    const Storage storage = storage_of(x);
    const void* from = pointer_to(x);
    void* to = writable(y);
    parallel_for(0, x.numel(), kGrainElements,
                 [&](int64_t begin, int64_t end) { silu_forward(storage, from, to, begin, end); });
  }
  return y;
}

Recorded record_silu_heads(const Tensor& x, int64_t heads, int64_t kv_heads, int64_t head_dim, bool on_gpu) {
  const Tensor y = silu_result(x, on_gpu);
  const Heads parts = heads_of(y, heads, kv_heads, head_dim);
  return {.results = {parts.q_thd, parts.k_thd, parts.v_thd},
          .saved = {x},
          .backward =
              [on_gpu](const BackwardCall& call) {
                return std::vector<Tensor>{silu_heads_gradient(call.saved[0], call.gradients, on_gpu)};
              },
          .cheap = {
              {y, {x}, [on_gpu](const std::vector<Tensor>& from) { return silu_result(from[0], on_gpu); }}}};
}

// x [tokens, 2·F] holds gate and up side by side; y and dy have rows of F.
Swiglu swiglu_of(const Tensor& x) {
  const int64_t width = x.size(1) / 2;
  return {.storage = storage_of(x),
          .width = width,
          .gate = pointer_to(x),
          .up = static_cast<const std::byte*>(pointer_to(x)) + width * x.element_size(),
          .ld_x = 2 * width,
          .ld_y = width};
}

Tensor swiglu_result(const Tensor& x, bool on_gpu) {
  const int64_t rows = x.size(0), width = x.size(1) / 2;
  const Tensor y = at::empty({rows, width}, x.options());
  if (on_gpu) {
    cuda_calls<ActivationCuda>().swiglu_forward(x, y);
    return y;
  }
  Swiglu problem = swiglu_of(x);
  problem.y = writable(y);
  parallel_for(0, rows, row_grain(2 * width),
               [&](int64_t begin, int64_t end) { swiglu_forward_rows(problem, begin, end); });
  return y;
}

Tensor swiglu_gradient(const Tensor& x, const Tensor& dy, bool on_gpu) {
  const Tensor dx = at::empty_like(x);
  if (on_gpu) {
    cuda_calls<ActivationCuda>().swiglu_backward(x, dy, dx);
    return dx;
  }
  Swiglu problem = swiglu_of(x);
  problem.dy = pointer_to(dy);
  problem.d_gate = writable(dx);
  problem.d_up = static_cast<std::byte*>(writable(dx)) + problem.width * x.element_size();
  parallel_for(0, x.size(0), row_grain(x.size(1)),
               [&](int64_t begin, int64_t end) { swiglu_backward_rows(problem, begin, end); });
  return dx;
}

Tensor bias_gelu_result(const Tensor& x, const Tensor& bias, bool on_gpu) {
  const Tensor y = at::empty_like(x);
  if (on_gpu) {
    cuda_calls<ActivationCuda>().bias_gelu_forward(x, bias, y);
    return y;
  }
  const BiasGelu problem{.storage = storage_of(x),
                         .columns = x.size(1),
                         .x = pointer_to(x),
                         .bias_c = pointer_to(bias),
                         .ld_x = x.size(1),
                         .y = writable(y),
                         .ld_y = x.size(1)};
  parallel_for(0, x.size(0), row_grain(x.size(1)),
               [&](int64_t begin, int64_t end) { bias_gelu_forward_rows(problem, begin, end); });
  return y;
}

// Adds the bias' own to `sink`.
Tensor bias_gelu_gradient(const Tensor& x, const Tensor& bias, const Tensor& dy, const GradientSink& sink,
                          bool on_gpu) {
  const Tensor dx = at::empty_like(x);
  if (on_gpu) {
    const Tensor d_bias = sink.wanted() ? at::zeros_like(sink.buffer()) : Tensor();
    cuda_calls<ActivationCuda>().bias_gelu_backward(x, bias, dy, dx, d_bias);
    sink.add([d_bias](const Tensor& to) { to.add_(d_bias); });
    return dx;
  }
  const BiasGelu problem{.storage = storage_of(x),
                         .columns = x.size(1),
                         .x = pointer_to(x),
                         .bias_c = pointer_to(bias),
                         .ld_x = x.size(1),
                         .dy = pointer_to(dy),
                         .ld_y = x.size(1),
                         .dx = writable(dx)};
  const RowBlocks blocks = row_blocks(x.size(0));
  const Tensor d_bias =
      sink.wanted() ? at::empty({blocks.count, x.size(1)}, x.options().dtype(wide_type(x))) : Tensor();
  parallel_for(0, blocks.count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      bias_gelu_backward_rows(problem, blocks.begin(b), blocks.end(b), writable_row(d_bias, b));
  });
  sink.add([d_bias](const Tensor& to) { to.add_(sum_of_blocks(d_bias)); });
  return dx;
}

void check_rows(const char* op, const Tensor& x) {
  if (x.dim() != 2 || !at::isFloatingType(x.scalar_type()) || x.scalar_type() == at::kHalf) {
    refuse_argument(op, "x", "[tokens, channels] in bf16, fp32 or fp64", shape_text(x));
  }
}

}  // namespace

Heads silu_heads(const Tensor& x, int64_t heads, int64_t kv_heads, int64_t head_dim) {
  check_rows("silu_heads", x);
  if (x.size(1) != (heads + 2 * kv_heads) * head_dim) {
    refuse_argument("silu_heads", "x",
                    fmt::format("[tokens, ({} + 2 · {}) heads · {}]", heads, kv_heads, head_dim),
                    shape_text(x));
  }
  const ByDevice choice = choose_by_device("silu_heads", x, refuse_cuda(x));
  if (choice == ByDevice::kMeta)
    return heads_of(meta_results({x}, {{x.sizes().vec(), x.scalar_type()}})[0], heads, kv_heads, head_dim);
  if (choice == ByDevice::kAten) return heads_of(at::silu(x.contiguous()), heads, kv_heads, head_dim);
  const bool on_gpu = choice == ByDevice::kCuda;
  const std::vector<Tensor> parts = differentiable("silu_heads", {x}, [&] {
    return record_silu_heads(x.contiguous(), heads, kv_heads, head_dim, on_gpu);
  });
  return {parts[0], parts[1], parts[2]};
}

Tensor swiglu(const Tensor& x) {
  check_rows("swiglu", x);
  if (x.size(1) % 2 != 0) refuse_argument("swiglu", "x", "[tokens, even number]", shape_text(x));
  const ByDevice choice = choose_by_device("swiglu", x, refuse_cuda(x));
  if (choice == ByDevice::kMeta) return meta_results({x}, {{{x.size(0), x.size(1) / 2}, x.scalar_type()}})[0];
  if (choice == ByDevice::kAten) return swiglu_reference(x);
  return differentiable("swiglu", {x}, [&, on_gpu = choice == ByDevice::kCuda]() -> Recorded {
    const Tensor rows = x.contiguous(), y = swiglu_result(rows, on_gpu);
    return {.results = {y},
            .saved = {rows},
            .backward =
                [on_gpu](const BackwardCall& call) {
                  return std::vector<Tensor>{
                      swiglu_gradient(call.saved[0], call.gradients[0].contiguous(), on_gpu)};
                },
            .cheap = {{y, {rows}, [on_gpu](const std::vector<Tensor>& from) {
                         return swiglu_result(from[0], on_gpu);
                       }}}};
  })[0];
}

Tensor bias_gelu(const Tensor& x, const Tensor& bias, const GradientSink& sink) {
  check_rows("bias_gelu", x);
  if (bias.defined()) {
    if (bias.sizes() != at::IntArrayRef({x.size(1)}) || bias.scalar_type() != x.scalar_type() ||
        !bias.is_contiguous()) {
      refuse_argument("bias_gelu", "bias", fmt::format("[{}] {}", x.size(1), name_of(x.scalar_type())),
                      shape_text(bias));
    }
    const Tensor& to = sink.buffer();
    if (to.defined() &&
        (to.sizes() != bias.sizes() || to.scalar_type() != wide_type(x) || !to.is_contiguous())) {
      refuse_argument("bias_gelu", "bias_sink", fmt::format("[{}] {}", x.size(1), name_of(wide_type(x))),
                      shape_text(to));
    }
  }
  const ByDevice choice = choose_by_device("bias_gelu", x, refuse_cuda(x));
  if (choice == ByDevice::kMeta) return meta_results({x}, {{x.sizes().vec(), x.scalar_type()}})[0];
  if (choice == ByDevice::kAten) {
    return bias_gelu_reference(x, bias.defined() ? with_gradient_to(bias.to(wide_type(x)), sink) : bias);
  }
  return differentiable("bias_gelu", {x, bias}, [&, on_gpu = choice == ByDevice::kCuda]() -> Recorded {
    const Tensor rows = x.contiguous(), y = bias_gelu_result(rows, bias, on_gpu);
    const GradientSink to = bias.defined() ? sink : GradientSink();
    return {.results = {y},
            .saved = {rows, bias},
            .backward =
                [on_gpu, to](const BackwardCall& call) {
                  return std::vector<Tensor>{bias_gelu_gradient(call.saved[0], call.saved[1],
                                                                call.gradients[0].contiguous(), to, on_gpu),
                                             Tensor()};
                },
            .sinks = {to},
            .cheap = {{y, {rows, bias}, [on_gpu](const std::vector<Tensor>& from) {
                         return bias_gelu_result(from[0], from[1], on_gpu);
                       }}}};
  })[0];
}

Tensor silu_reference(const Tensor& x) { return at::silu(x); }

Tensor swiglu_reference(const Tensor& x) {
  const auto halves = x.to(wide_type(x)).chunk(2, 1);
  return at::silu(halves[0]).mul(halves[1]).to(x.scalar_type());
}

Tensor bias_gelu_reference(const Tensor& x, const Tensor& bias) {
  const Tensor wide = x.to(wide_type(x));
  return at::gelu(bias.defined() ? wide + bias : wide, "tanh").to(x.scalar_type());
}

}  // namespace longhaul::kernels
