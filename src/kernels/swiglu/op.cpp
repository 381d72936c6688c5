#include "kernels/swiglu/op.h"

#include <torch/csrc/autograd/custom_function.h>


#include "kernels/documents.h"

namespace longhaul::kernels {
namespace {

class SwigluFunction : public torch::autograd::Function<SwigluFunction> {
 public:
  // silu and its relatives come from ATen, whose vectorised exp is faster than a plain loop; what is saved is traffic: one output,
  // nothing kept but the input.
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x) {
    context->save_for_backward({x});
    const int64_t width = x.size(1) / 2;
    return at::silu(x.narrow(1, 0, width)).mul_(x.narrow(1, width, width));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const Tensor x = context->get_saved_variables()[0];
    const Tensor& dy = gradients[0];
    const int64_t width = x.size(1) / 2;
    const Tensor gate = x.narrow(1, 0, width), up = x.narrow(1, width, width);
    Tensor dx = at::empty_like(x);
    Tensor d_gate = dx.narrow(1, 0, width), d_up = dx.narrow(1, width, width);
    at::mul_out(d_up, dy, at::silu(gate));
    d_gate.copy_(at::silu_backward(dy.mul(up), gate));
    return {dx};
  }
};

}  // namespace

Tensor swiglu(const Tensor& x) {
  if (x.dim() != 2 || x.size(1) % 2 != 0 || !at::isFloatingType(x.scalar_type())) {
    refuse_argument("swiglu", "x", "[tokens, even number], floating point", shape_text(x));
  }
  return SwigluFunction::apply(x);
}

Tensor swiglu_reference(const Tensor& x) {
  const auto halves = x.chunk(2, 1);
  return at::silu(halves[0]).mul(halves[1]);
}

}  // namespace longhaul::kernels
