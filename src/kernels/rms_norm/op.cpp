#include "kernels/rms_norm/op.h"

#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "base/parallel.h"
#include "kernels/documents.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kBlockRows = 64;  // rows whose dw is summed before the blocks are added in order

template <class In, class Real>
void forward(const In* x, const Real* w, In* y, Real* r, int64_t rows, int64_t channels, double eps) {
  parallel_for(0, rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const In* row = x + t * channels;
      Real sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t c = 0; c < channels; ++c) sum += static_cast<Real>(row[c]) * static_cast<Real>(row[c]);
      const Real scale = Real(1) / std::sqrt(sum / static_cast<Real>(channels) + static_cast<Real>(eps));
      r[t] = scale;
      In* out = y + t * channels;
      for (int64_t c = 0; c < channels; ++c) out[c] = static_cast<In>(static_cast<Real>(row[c]) * scale * w[c]);
    }
  });
}

// dw_blocks [blocks, channels], zeroed by the caller.
template <class In, class Real>
void backward(const In* x, const Real* w, const Real* r, const In* dy, In* dx, Real* dw_blocks, int64_t rows, int64_t channels) {
  const int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
  parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      Real* dw = dw_blocks + b * channels;
      for (int64_t t = b * kBlockRows; t < std::min(rows, (b + 1) * kBlockRows); ++t) {
        const In *row = x + t * channels, *g = dy + t * channels;
        Real dot = 0;
#pragma omp simd reduction(+ : dot)
        for (int64_t c = 0; c < channels; ++c) dot += static_cast<Real>(g[c]) * w[c] * static_cast<Real>(row[c]);
        const Real mean = dot * r[t] / static_cast<Real>(channels);
        In* out = dx + t * channels;
        for (int64_t c = 0; c < channels; ++c) {
          const Real n = static_cast<Real>(row[c]) * r[t], d = static_cast<Real>(g[c]);
          dw[c] += d * n;
          out[c] = static_cast<In>(r[t] * (d * w[c] - n * mean));
        }
      }
    }
  });
}

class RmsNormFunction : public torch::autograd::Function<RmsNormFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x_any, const Tensor& weight, double eps) {
    const Tensor x = x_any.contiguous();
    Tensor y = at::empty_like(x), r = at::empty({x.size(0)}, weight.options());
    const int64_t rows = x.size(0), channels = x.size(1);
    AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, x.scalar_type(), "rms_norm", [&] {
      using Real = std::conditional_t<std::is_same_v<scalar_t, double>, double, float>;
      kernels::forward<scalar_t, Real>(x.const_data_ptr<scalar_t>(), weight.const_data_ptr<Real>(), y.mutable_data_ptr<scalar_t>(),
                                       r.mutable_data_ptr<Real>(), rows, channels, eps);
    });
    context->save_for_backward({x, weight, r});
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &r = saved[2], dy = gradients[0].contiguous();
    const int64_t rows = x.size(0), channels = x.size(1);
    Tensor dx = at::empty_like(x), dw = at::zeros({(rows + kBlockRows - 1) / kBlockRows, channels}, weight.options());
    AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, x.scalar_type(), "rms_norm_backward", [&] {
      using Real = std::conditional_t<std::is_same_v<scalar_t, double>, double, float>;
      kernels::backward<scalar_t, Real>(x.const_data_ptr<scalar_t>(), weight.const_data_ptr<Real>(), r.const_data_ptr<Real>(),
                                        dy.const_data_ptr<scalar_t>(), dx.mutable_data_ptr<scalar_t>(), dw.mutable_data_ptr<Real>(),
                                        rows, channels);
    });
    return {dx, dw.sum(0), Tensor()};
  }
};

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  if (x.dim() != 2 || !at::isFloatingType(x.scalar_type())) refuse_argument("rms_norm", "x", "[tokens, channels], floating point", shape_text(x));
  const ScalarType wide = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  if (weight.sizes() != at::IntArrayRef({x.size(1)}) || weight.scalar_type() != wide || !weight.is_contiguous()) {
    refuse_argument("rms_norm", "weight", "[" + std::to_string(x.size(1)) + "] " + std::string(name_of(wide)), shape_text(weight));
  }
  return RmsNormFunction::apply(x, weight, eps);
}

Tensor rms_norm_reference(const Tensor& x, const Tensor& weight, double eps) {
  const Tensor wide = x.to(weight.scalar_type());
  return wide.mul(wide.square().mean(-1, true).add(eps).rsqrt()).mul(weight).to(x.scalar_type());
}

}  // namespace longhaul::kernels
